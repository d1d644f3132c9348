"""The built-in trainer: the only room with torch. It writes to the local disk only and knows no store."""
