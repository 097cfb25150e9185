"""L1-regularised problems: Newton steps by coordinate descent over columns kept in memory."""
