package slot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"spore/agent/bootloader"
	"spore/storage/fat"
	"spore/wire/update"
)

// loader is the boot loader that the firmware starts by itself.
func (w *writer) loader() ([]byte, error) { return bootloader.ReadESP(w.files, bootloader.DefaultPath) }

// bringsLoader tells whether an update brings a boot loader that is to be tried and is not known yet.
func (m Machine) bringsLoader(h update.Head) (bool, error) {
	if m.Loader == "" || h.Loader == (update.Blob{}) {
		return false, nil
	}
	d, err := m.Open(m.Boot.ESP, false)
	if err != nil {
		return false, fmt.Errorf("open the ESP: %w", err)
	}
	defer d.Close()
	f, err := fat.Open(d, d.Size())
	if err != nil {
		return false, fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	w := writer{m: m, head: h, files: f}
	return w.newLoader()
}

// newLoader tells whether the update has another boot loader than the ESP, and it was not tried yet.
func (w *writer) newLoader() (bool, error) {
	differs, err := w.otherLoader()
	if err != nil || !differs {
		return false, err
	}
	r, err := bootloader.Read(w.m.Loader)
	known := r.SHA256 == w.head.Loader.SHA256 && r.State != bootloader.Kept
	return !known || w.head.Force && r.State == bootloader.Failed, err
}

// otherLoader tells whether the update has another boot loader than the ESP.
func (w *writer) otherLoader() (bool, error) {
	if w.m.Loader == "" || w.head.Loader == (update.Blob{}) {
		return false, nil
	}
	now, err := w.loader()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // Something else starts this machine.
	}
	if err != nil {
		return false, fmt.Errorf("the ESP: %w", err)
	}
	sum, err := update.Sum(bytes.NewReader(now))
	return sum != w.head.Loader, err
}

// keepLoader keeps the boot loader of the update until it is tried, and forgets another that waits.
func (w *writer) keepLoader(s source) error {
	if w.m.Loader == "" || w.head.Loader == (update.Blob{}) {
		return nil
	}
	differs, err := w.otherLoader()
	if err != nil {
		return err
	}
	r, err := bootloader.Read(w.m.Loader)
	if err != nil {
		return err
	}
	if !differs && (r.SHA256 == "" || r.SHA256 == w.head.Loader.SHA256) {
		return nil
	}
	content, err := io.ReadAll(io.NewSectionReader(s.Loader, 0, s.Loader.Size()))
	if err != nil {
		return fmt.Errorf("read the update: %w", err)
	}
	again := w.head.Force || r.State == bootloader.Kept
	w.kept = differs
	return bootloader.Keep(w.m.Loader, content, w.head.RootHash, w.head.ClusterHash, again)
}

// fallBack gives the firmware boot options for the case that the first one does not start. A machine whose firmware
// does not keep them waits for a person in that case, and takes the update all the same.
func (w *writer) fallBack() {
	if w.m.Vars == "" {
		return
	}
	err := fmt.Errorf("the boot disk does not have the EFI partition %s", w.m.Boot.ESP)
	for _, p := range w.table.Partitions {
		if w.m.Partition(p.Number) == w.m.Boot.ESP {
			err = bootloader.Fallbacks(w.m.Vars, p, w.disk.SectorSize())
		}
	}
	if err != nil {
		w.m.Say("the firmware has nothing to start where the boot loader does not: " + err.Error())
	}
}
