"""The results of a campaign in the formats that a CI reads: JUnit XML, SARIF, annotations, summaries. Never reads the store."""
