#!/bin/sh
# One thread per process; several share port and cache
# (https://www.knot-resolver.cz/documentation/v5.6.0/systemd-multiinst.html).
setpriv --pdeathsig TERM kresd -n -c %DIRECTORY%/kresd.conf %DIRECTORY%/knot-resolver &
exec kresd -n -c %DIRECTORY%/kresd.conf %DIRECTORY%/knot-resolver
