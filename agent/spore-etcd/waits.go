package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/paths"
	"spore/storage/atomicfile"
)

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
		m.say(text)
	}
	if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", " ")); err != nil {
		m.say(err.Error())
	}
	if os.Geteuid() != 0 {
		return
	}
	path := m.root.At(filepath.Join(paths.Waiting, service))
	var err error
	if text != "" {
		_, err = atomicfile.Write(path, []byte(text), 0o644)
	} else if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		m.say(err.Error())
	}
}
