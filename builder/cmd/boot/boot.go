// Package boot is the command `spore boot`: rehearse a node in QEMU with the very image that the machine would get.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inspect"
	"spore/builder/cmd/operator"
	"spore/builder/pipeline"
	"spore/builder/vm"
	"spore/cluster/facts"
	"spore/cluster/roles"
)

// defaultMAC is the card of a node that is not recognised by its MAC.
const defaultMAC = "52:54:00:77:ff:01"

// diskSize is the disk that the machine has, in bytes: room for the second slots and for state.
const diskSize = 12 << 30

type flags struct {
	node        string
	memory      int
	cpus        int
	credentials []string
	keys        operator.Folder
	tpm         bool
	remove      bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "boot [OUT] --node NAME",
		Short: "Boot a node of an image in QEMU",
		Long: `Boot starts QEMU with the image in the folder OUT (out when left out) as the named node: with its MAC addresses,
or with a DHCP server that gives its address or host name. The ports of its roles are forwarded from free ports of this
machine's loopback, which are printed. The console is shown, and gets what you type, until you press Ctrl-C, which is a power
cut.

The machine is given the node's bundle of secrets, from the folder that holds the keys that the image was built with. It
is looked for in the current folder and beside OUT. --credential spore.bundle=FILE hands over another one.

The machine's disk is kept in OUT/vm/NAME, so the next boot finds its state. It belongs to one build of the image. Its TPM
is kept there too.`,
		Example: "  spore boot out --node edge-01\n  spore boot out --node edge-01 --tpm\n  spore boot out --node edge-01 --credential spore.bundle=edge-01.bundle\n  spore boot out --node edge-01 --rm",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := "out"
			if len(args) == 1 {
				out = args[0]
			}
			if f.node == "" {
				return exit.Usage(errors.New("name the node with --node"))
			}
			return run(cmd.Context(), cmd.OutOrStdout(), out, f)
		},
	}
	cmd.Flags().StringVar(&f.node, "node", "", "name of the node")
	cmd.Flags().IntVar(&f.memory, "memory", 1024, "memory in MiB")
	cmd.Flags().IntVar(&f.cpus, "cpus", 2, "number of processors")
	cmd.Flags().StringArrayVar(&f.credentials, "credential", nil, "systemd credential for the machine, as NAME=FILE")
	f.keys.Register(cmd)
	cmd.Flags().BoolVar(&f.tpm, "tpm", false, "give the machine a TPM 2.0")
	cmd.Flags().BoolVar(&f.remove, "rm", false, "forget the machine's disk and TPM first")
	return cmd
}

func run(ctx context.Context, w io.Writer, out string, f flags) error {
	image, err := filepath.Abs(filepath.Join(out, pipeline.DiskName))
	if err != nil {
		return err
	}
	node, cluster, err := inspect.ReadNode(image, f.node)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "vm", f.node)
	disk, err := prepareDisk(ctx, image, dir, f.remove)
	if err != nil {
		return err
	}
	nic, err := network(cluster, node)
	if err != nil {
		return err
	}
	credentials, err := readCredentials(f.credentials)
	if err != nil {
		return err
	}
	if _, given := credentials[operator.Credential]; !given {
		bundles, none, err := f.keys.Bundles(cluster, []*facts.Node{node}, operator.Options{Now: time.Now(), Near: []string{".", filepath.Dir(filepath.Clean(out))}})
		if err != nil {
			return fmt.Errorf("bundle of %s: %w", f.node, err)
		}
		for _, b := range bundles {
			credentials[operator.Credential] = b.Data
			none = fmt.Sprintf("bundle %d from %s", b.Serial, b.Folder)
		}
		fmt.Fprintf(w, "%s: %s\n", f.node, none)
	} else if f.keys.Dir != "" {
		return exit.Usage(errors.New("--pki and --credential spore.bundle=FILE exclude each other"))
	}
	accel, err := vm.DetectAccel(ctx)
	if err != nil {
		return err
	}
	tpm := ""
	if f.tpm {
		tpm = filepath.Join(dir, "tpm")
	}
	machine, err := vm.Start(ctx, vm.Config{
		Name: f.node, Dir: dir, Accel: accel, Memory: f.memory, CPUs: f.cpus, Reboots: true,
		Disks:  []vm.Disk{{Path: disk, Format: "qcow2", Serial: f.node, BootIndex: 1}},
		NICs:   []vm.NIC{nic},
		SMBIOS: vm.SMBIOS{Serial: node.Serial, UUID: node.UUID, Credentials: credentials},
		TPM:    tpm,
	})
	if err != nil {
		return err
	}
	defer machine.Kill()
	fmt.Fprintf(w, "%s: %s, %d processors, %d MiB, disk %s\n", f.node, accel.Name, f.cpus, f.memory, disk)
	for i, forward := range nic.Forwards {
		fmt.Fprintf(w, "%s: 127.0.0.1:%d leads to %s/%s\n", f.node, machine.Ports[i], forward.Guest, forward.Protocol)
	}
	return follow(ctx, w, machine)
}

// follow shows the console, and types on it what is typed here, until the machine ends or the user has enough.
func follow(ctx context.Context, w io.Writer, m *vm.Machine) error {
	restore, err := typeThere(os.Stdin, m.Type)
	if err != nil {
		return errors.Join(err, m.Quit())
	}
	defer restore()
	err = m.Console.Follow(ctx, w)
	if ctx.Err() != nil {
		return m.Quit()
	}
	return errors.Join(err, m.Wait(ctx))
}

// prepareDisk makes the machine's disk on top of the image, or takes the one that is there. An overlay is worth nothing
// without the very image that it was made on, so it is kept beside the image's identity.
func prepareDisk(ctx context.Context, image, dir string, remove bool) (string, error) {
	if remove {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	id, err := inspect.DiskUUID(image)
	if err != nil {
		return "", err
	}
	disk, stamp := filepath.Join(dir, "disk.qcow2"), filepath.Join(dir, "image-id")
	known, err := os.ReadFile(stamp)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := vm.Overlay(ctx, image, disk, diskSize); err != nil {
			return "", err
		}
		return disk, os.WriteFile(stamp, []byte(id), 0o644)
	case err != nil:
		return "", err
	case string(known) != id:
		return "", fmt.Errorf("the disk in %s was made for another build of the image; start afresh with --rm", dir)
	}
	return disk, nil
}

// network puts the node's card on a network as its cluster.yaml has it, with a DHCP server that makes the node known.
func network(c *facts.Cluster, n *facts.Node) (vm.NIC, error) {
	nic := vm.NIC{MAC: defaultMAC, Hostname: n.Hostname}
	if len(n.MACs) > 0 {
		nic.MAC = n.MACs[0]
	}
	for _, s := range c.Network.NodeSubnets {
		if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() {
			nic.Net = p.Masked().String()
		}
	}
	if nic.Net == "" {
		return nic, errors.New("QEMU's user network needs an IPv4 node subnet in cluster.yaml")
	}
	address := ""
	for _, ip := range n.IPs {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is4() {
			address = a.String()
		}
	}
	nic.DHCPStart = address
	if address == "" {
		return nic, nil
	}
	for _, role := range n.Roles {
		r, _ := roles.Lookup(role)
		for _, program := range r.Programs {
			p, _ := roles.LookupProgram(program)
			for _, port := range p.Ports {
				number, protocol, _ := strings.Cut(port, "/")
				nic.Forwards = append(nic.Forwards, vm.Forward{Protocol: protocol, Guest: address + ":" + number})
			}
		}
	}
	return nic, nil
}

func readCredentials(list []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, c := range list {
		name, file, ok := strings.Cut(c, "=")
		if !ok || name == "" {
			return nil, exit.Usage(fmt.Errorf("--credential is %q; write NAME=FILE", c))
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read credential %s: %w", name, err)
		}
		out[name] = data
	}
	return out, nil
}
