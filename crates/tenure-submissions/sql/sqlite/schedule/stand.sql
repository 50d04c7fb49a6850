-- Where things stand: the number of the last transaction that wrote intents, and which file this is.
SELECT number, file FROM submission_changes
