"""What each page says, as rows: plain functions from the JSON of ``/v1`` to frozen values. They know no HTML."""
