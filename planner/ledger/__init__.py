"""The ledger: who used what, when. The only place that knows SQL; all amounts are whole numbers."""
