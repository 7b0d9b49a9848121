"""The shared language of all rooms: records, codes, topics, seals, ports. Pure: nothing here does I/O."""
