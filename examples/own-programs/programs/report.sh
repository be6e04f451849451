#!/bin/sh
# Writes a numbered report of how full the state is, and keeps the last ones: report SETTINGS. The first line of
# SETTINGS is how many are kept, the second the heading.
set -eu
umask 027
{
	read -r keep
	read -r heading
} < "$1"
cd /var/lib/report
number=$(($(cat number 2> /dev/null || echo 0) + 1))
{
	echo "$heading"
	df -k /var
} > "report-$number.new"
mv "report-$number.new" "report-$number"
echo "$number" > number.new
mv number.new number
old=$((number - keep))
while [ -e "report-$old" ]; do
	rm "report-$old"
	old=$((old - 1))
done
echo "wrote report $number: $heading"
