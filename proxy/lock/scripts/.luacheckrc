-- For the text of a script or an include, as `embed.sh --text NAME` prints it.
std = 'lua51'
read_globals = { 'redis', 'KEYS', 'ARGV' }
max_line_length = 100
-- An include's parameters may be named as variables of the script or the function that it stands in.
ignore = { '43.' }
