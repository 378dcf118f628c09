"""The transaction coordinator's decider: producer ids and epochs of transactional ids, and the fate of transactions."""
