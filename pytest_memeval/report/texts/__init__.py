"""The texts of reports, each in English and in Chinese: key → (English, Chinese)."""
