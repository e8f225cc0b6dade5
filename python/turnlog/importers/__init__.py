"""Importers of agent transcripts: lines, mappers of two products, discovery of files, and the driver of a store."""
