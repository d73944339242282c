"""What samples tokens: one file per engine, all behind ``protocol.Engine``."""
