package slot

import (
	"fmt"

	"spore/storage/fat"
)

// Running is the entry on the ESP that starts what runs.
func (m Machine) Running() (Entry, error) {
	var out Entry
	err := m.withESP(func(e *fat.Editor) error {
		list, err := e.List(Dir)
		if err != nil {
			return err
		}
		for _, f := range list {
			entry, ok := ParseEntry(f.Name)
			if !ok || f.Dir {
				continue
			}
			content, err := e.Open(f)
			if err != nil {
				return err
			}
			if runs, err := starts(content, m.Boot.RootHash, m.Boot.ClusterHash); err != nil {
				return err
			} else if runs && (out.Stem == "" || entry.Counted) {
				out = entry
			}
		}
		if out.Stem == "" {
			return fmt.Errorf("no entry in %s starts what runs", Dir)
		}
		return nil
	})
	return out, err
}

// Rename gives an entry another counter, or none.
func (m Machine) Rename(from, to Entry) error {
	if from == to {
		return nil
	}
	return m.withESP(func(e *fat.Editor) error { return e.Rename(Dir, from.File(), to.File()) })
}

// Remove takes a file of an entry off the ESP.
func (m Machine) Remove(file string) error {
	return m.withESP(func(e *fat.Editor) error { return e.Remove(Dir, file) })
}

func (m Machine) withESP(do func(*fat.Editor) error) error {
	d, err := m.Open(m.Boot.ESP, false)
	if err != nil {
		return fmt.Errorf("open the ESP: %w", err)
	}
	defer d.Close()
	e, err := fat.Edit(d, d.Size())
	if err == nil {
		err = do(e)
	}
	if err != nil {
		return fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	return nil
}
