"""Clicks gathered into sessions."""
