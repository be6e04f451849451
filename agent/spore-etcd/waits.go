package main

import "os"

// etcdService is under which name it is said for whom etcd waits.
const etcdService = "etcd"

// waits says for what a service waits: to systemd, in the journal when that is news, and, as root, in the status line. "" is
// nothing.
func (m *machine) waits(service, text string) {
	if text == m.said {
		return
	}
	m.said = text
	if text != "" {
		m.Say(text)
	}
	if os.Geteuid() == 0 {
		m.Waits(service, text)
	} else {
		m.TellStatus(text)
	}
}
