package staged

import (
	"os"

	"spore/agent/bootloader"
	"spore/agent/efi"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
)

// Now is what the status line says of the configuration that runs; nil where stage1 said nothing.
func Now(m *node.Machine) *slot.Info {
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	i := slot.InfoOf(r, m.Boot.RootHash, m.Boot.ClusterHash, m.BootID(), counted(m))
	if i != nil && err != nil {
		i.Problem = err.Error() + "; a push with --force begins a new one"
	}
	if i == nil {
		return nil
	}
	loader, err := bootloader.Read(m.Root.At(paths.Loader))
	if i.Loader = loader.Text(); err != nil {
		i.Loader = err.Error()
	}
	return i
}

// counted tells whether the boot loader counted this start, because its configuration is on trial.
func counted(m *node.Machine) bool { return efi.Counted(os.DirFS(m.Root.At(paths.EFIVars))) }
