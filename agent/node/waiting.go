package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/paths"
	"spore/storage/atomicfile"
)

// SayWaiting writes for what the start of a service waits, for the status line; "" when it waits no longer.
func (m *Machine) SayWaiting(service, text string) error {
	path := m.Root.At(filepath.Join(paths.Waiting, service))
	if text == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	_, err := atomicfile.Write(path, []byte(text), 0o644)
	return err
}

// Waits says for what the start of a service waits, to systemd and for the status line; "" when it waits no longer.
func (m *Machine) Waits(service, text string) {
	m.TellStatus(text)
	if err := m.SayWaiting(service, text); err != nil {
		m.Say(err.Error())
	}
}

// Waiting reads for what services wait, by their names.
func (m *Machine) Waiting() map[string]string {
	entries, err := os.ReadDir(m.Root.At(paths.Waiting))
	if err != nil {
		return nil // No service has waited.
	}
	out := map[string]string{}
	for _, e := range entries {
		// One that is just being written has a name with a dot before it.
		text, err := atomicfile.ReadLimited(m.Root.At(filepath.Join(paths.Waiting, e.Name())), MaxSecret)
		if err == nil && !strings.HasPrefix(e.Name(), ".") {
			out[e.Name()] = string(text)
		}
	}
	return out
}

// TellStatus tells systemd what the unit does or waits for.
func (m *Machine) TellStatus(text string) {
	if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", " ")); err != nil {
		m.Say(err.Error())
	}
}

// Joined is what several have to say, one after the other; who says nothing is left out.
func Joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), "; ")
}
