"""The heart: what decides, pure, one module a gate, readable from top to bottom by an auditor."""
