"""The pages: HTML of the rows that `views` make. htpy escapes each text and each attribute."""
