"""The `moldau` command. Every subcommand is imported only when it runs."""
