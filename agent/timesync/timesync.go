// Package timesync understands what systemd-timesyncd says of itself. It is asked without a message bus, which the image does not
// have: by the status text that it gives to systemd, and by the file that it touches when it has set the clock.
package timesync

import (
	"net/netip"
	"os"
	"strings"
)

const (
	// Unit is timesyncd.
	Unit = "systemd-timesyncd.service"
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

// Set tells whether timesyncd has set the clock in this boot, by its mark.
func Set(mark string) bool {
	_, err := os.Stat(mark)
	return err == nil
}
