#!/bin/sh
# kill(1) by the one of the shell: units reload their daemons with it, and the image does not have the package procps.
signal=TERM
case $1 in
-l | -L)
	kill -l
	exit
	;;
-s | --signal)
	signal=$2
	shift 2
	;;
--signal=*)
	signal=${1#--signal=}
	shift
	;;
--) ;;
-*)
	signal=${1#-}
	shift
	;;
esac
[ "$1" = -- ] && shift
status=0
for process; do
	kill -s "${signal#SIG}" -- "$process" || status=1
done
exit $status
