package initrd

import (
	"context"
	"path"

	"spore/builder/kmod"
	"spore/builder/tree"
)

// networkDir is where, below the module directory, the indexes of the drivers of network cards are. They are apart since
// stage1 loads them only on a machine that starts from the network, where nobody knows a card before.
const networkDir = "network"

// network are the drivers of network cards that people start machines by. Left out, besides what is rare: bnx2, bnx2x, qede,
// which do nothing without firmware files, and mlx4_en, which asks for a modprobe.
var network = []string{
	// virtual machines
	"virtio_net", "hv_netvsc", "xen-netfront", "vmxnet3", "ena", "gve", "e1000", "8139cp", "ixgbevf", "iavf", "igbvf",
	// Intel
	"e1000e", "igb", "igc", "ixgbe", "i40e", "ice",
	// others on boards and cards
	"r8169", "tg3", "bnxt_en", "mlx5_core", "be2net", "atlantic", "alx", "atl1c", "sky2", "forcedeth",
	// USB
	"r8152", "cdc_ncm", "ax88179_178a", "asix",
}

// networkFiles are the drivers of network cards, compressed as the kernel's package has them, and their indexes. The kernel
// decompresses a module itself when it is loaded (CONFIG_MODULE_DECOMPRESS), so that a machine that starts from a disk only
// reads them, a quarter of their size, and unpacks nothing.
func networkFiles(ctx context.Context, t *tree.Tree, m *kmod.Modules, selected []*kmod.Module) (map[string][]byte, error) {
	drivers, err := m.Closure(nil, network)
	if err != nil {
		return nil, err
	}
	dir := path.Join("lib/modules", m.Version)
	there := map[string]bool{}
	for _, mod := range selected {
		there[mod.Name] = true
	}
	files := map[string][]byte{}
	moved := make([]*kmod.Module, len(drivers))
	for i, mod := range drivers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := *mod
		moved[i] = &c
		if there[mod.Name] {
			c.Path = path.Join("..", plainPath(mod.Path))
			continue
		}
		c.Path = path.Join("..", mod.Path)
		if files[path.Join(dir, mod.Path)], err = t.ReadFile(path.Join(kmod.Dir, m.Version, mod.Path)); err != nil {
			return nil, err
		}
	}
	indexes, err := restricted(m, moved).Files()
	if err != nil {
		return nil, err
	}
	for _, name := range indexFiles {
		files[path.Join(dir, networkDir, name)] = indexes[name]
	}
	return files, nil
}
