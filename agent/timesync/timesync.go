// Package timesync understands what systemd-timesyncd says of itself. It is asked without a message bus, which the
// image does not have: by the status text that it gives to systemd, and by the file that it touches when it has set the
// clock.
//
// An image whose image.yaml names chrony has chrony in the place of timesyncd. It says nothing of itself here; the
// kernel knows whether it keeps the clock.
package timesync

import (
	"net/netip"
	"os"
	"strings"
)

const (
	// Unit is timesyncd.
	Unit = "systemd-timesyncd.service"
	// Chrony is the unit of chrony in Debian, and ChronySources a folder that only its package has. It reads a list of
	// time servers there (chrony.conf(5), sourcedir).
	Chrony, ChronySources = "chrony.service", "/etc/chrony/sources.d"
	// Mark is there when timesyncd has set the clock in this boot (systemd-timesyncd.service(8)).
	Mark = "/run/systemd/timesync/synchronized"
	// contacted begins its status text while it hears from a server (timesyncd-manager.c, manager_receive_response): the address
	// with its port, then in parentheses the name that it was configured by.
	contacted = "Contacted time server "
)

// Server is the time server that timesyncd hears from, by its status text; not valid when it says anything else.
func Server(status string) netip.Addr {
	rest, ok := strings.CutPrefix(status, contacted)
	if !ok {
		return netip.Addr{}
	}
	at, _, _ := strings.Cut(rest, " ")
	if a, err := netip.ParseAddrPort(at); err == nil {
		return a.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(strings.Trim(at, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// Keeper is the unit that sets the clock; sources is where ChronySources is.
func Keeper(sources string) string {
	if _, err := os.Stat(sources); err == nil {
		return Chrony
	}
	return Unit
}

// Set tells whether timesyncd has set the clock in this boot, by its mark.
func Set(mark string) bool {
	_, err := os.Stat(mark)
	return err == nil
}
