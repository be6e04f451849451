package master

import "os"

// Service is under which name it is said for whom etcd waits.
const Service = "etcd"

// WaitsFor says for what a service waits: to systemd, in the journal when that is news, and, as root, in the status line. "" is
// nothing.
func (m *Machine) WaitsFor(service, text string) {
	if text == m.said {
		return
	}
	m.said = text
	if text != "" {
		m.Say(text)
	}
	if os.Geteuid() == 0 {
		m.Machine.Waits(service, text)
	} else {
		m.TellStatus(text)
	}
}
