package initrd

// networkDir is where, below the module directory, the indexes of the drivers of network cards are. They are apart
// since stage1 loads them only on a machine that starts from the network, where nobody knows a card before.
const networkDir = "network"

// network are the drivers of network cards that people start machines by. Left out, besides what is rare: bnx2, bnx2x,
// qede, which do nothing without firmware files, and mlx4_en, which asks for a modprobe.
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
