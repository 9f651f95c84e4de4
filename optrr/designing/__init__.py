"""Specifications in, certified designs out; design files and their verification."""
