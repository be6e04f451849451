// Package boot is the command `spore boot`: rehearse nodes in QEMU with the very image that the machines would get.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inspect"
	"spore/builder/cmd/operator"
	"spore/builder/rehearsal"
	"spore/builder/rehearsal/door"
	"spore/cluster/facts"
	tree "spore/pki"
)

type flags struct {
	out         string
	nodes       []string
	all         bool
	console     string
	kill        bool
	remove      bool
	medium      string
	install     bool
	memory      []string
	cpus        int
	credentials []string
	words       []string
	keys        operator.Folder
	tpm         bool
	json        bool
	until       string
	test        bool
	// timeout counts where timed says that it was given.
	timeout time.Duration
	timed   bool
	socks   string
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "boot [OUT] {--node NAME… | --all | --console NAME | --kill [NAME…]}",
		Short: "Run an image in QEMU virtual machines, to rehearse a cluster",
		Long: `Boot starts QEMU with the image in the folder OUT (out when left out) as the named nodes, or all of them: each with its
MAC addresses, with the disks that its node file names, with its bundle of secrets, and with a DHCP server that gives
its address or host name. All are on one private network. Free ports of this machine's loopback lead to the ports of
their roles, and a SOCKS5 proxy leads to all addresses and names of that network. All these ports are printed.

With one machine, you see its console and can type into it; with several machines, you see each change of their status.
Ctrl-C is a power cut for all of them. --console NAME shows the console of one of them, or attaches to one that runs in
another terminal; Ctrl-C then only detaches. --kill ends machines that run in the background or in another terminal.

Bundles are made with the keys that the image was built with, from the operator's folder. It is searched in the current
folder and beside OUT. --credential spore.bundle=FILE gives another bundle.

--until ready makes it a test: it ends with 0 as soon as all named nodes are ready at the same time. It ends with 1 when
they are not ready within --timeout, or when a machine ends or its kernel panics. It says of each node what is missing,
and cuts the power of all machines. A node is ready when its system runs, its roles have started, no unit has failed,
its health is good, and (if it runs pods) Kubernetes reports it as Ready.

--test does that, and then has each node run the tests that the files of its roles name (roles/NAME.yaml, tests). It
prints for each whether it passed, and ends with 1 if one failed.

A machine's data is in OUT/vm/NAME: its disks, its firmware's variables, its TPM, the text of its console. The next boot
finds it there. The disk belongs to one build of the image; --rm deletes all of it.`,
		Example: `  spore boot out --node edge-01
  spore boot out --all
  spore boot out --all --until ready --timeout 20m
  spore boot out --all --rm --test
  spore boot out --node kafka-01,storage-01 --console kafka-01 --memory kafka-01=3072
  spore boot out --node edge-01 --medium usb --install
  spore boot out --console kafka-01
  spore boot out --kill
  spore boot out --kill kafka-01 --rm`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.timed = cmd.Flags().Changed("timeout")
			args, err := f.take(args)
			if err != nil {
				return exit.Usage(err)
			}
			r := &reporter{w: cmd.OutOrStdout(), json: f.json}
			switch {
			case f.kill:
				return kill(cmd.Context(), r, f.folder(), args, f.remove)
			case len(f.nodes) == 0 && !f.all:
				return attach(cmd.Context(), cmd.OutOrStdout(), f.folder(), f.console)
			}
			return run(cmd.Context(), r, f)
		},
	}
	cmd.Flags().StringSliceVar(&f.nodes, "node", nil, "name of a node; several times, or several with commas")
	cmd.Flags().BoolVar(&f.all, "all", false, "every node of the image")
	cmd.Flags().StringVar(&f.console, "console", "", "show this node's console; without --node and --all, attach to a running node")
	cmd.Flags().BoolVar(&f.kill, "kill", false, "end the named nodes, or all that run with OUT")
	cmd.Flags().BoolVar(&f.remove, "rm", false, "forget the machines' disks and TPMs, before they start or after --kill")
	cmd.Flags().StringVar(&f.medium, "medium", "", "what the machines start from: "+strings.Join(kinds, ", ")+" (default disk)")
	cmd.Flags().BoolVar(&f.install, "install", false, "have the image install itself on an empty disk, from --medium iso (then the default, if there is an ISO) or usb")
	cmd.Flags().StringSliceVar(&f.memory, "memory", nil, "memory in MiB, for all or as NODE=MIB (default: what the roles need)")
	cmd.Flags().IntVar(&f.cpus, "cpus", 0, "number of processors of each machine (default: 2 for one machine; 1 for several, and for emulation by QEMU before 8.1)")
	cmd.Flags().StringArrayVar(&f.credentials, "credential", nil, "systemd credential for the machines, as NAME=FILE")
	cmd.Flags().StringArrayVar(&f.words, "append", nil, "further words of the kernel command line, such as spore.console for a root shell on the console")
	f.keys.Register(cmd)
	cmd.Flags().BoolVar(&f.tpm, "tpm", false, "give each machine a TPM 2.0")
	cmd.Flags().StringVar(&f.socks, "socks", "", "address of the SOCKS5 proxy into the network, on loopback (default: its last port, else a free one)")
	cmd.Flags().StringVar(&f.until, "until", "", "end when all machines are so: "+untilReady)
	cmd.Flags().BoolVar(&f.test, "test", false, "have the nodes run the tests of their roles when all are ready, and end; implies --until ready")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long --until waits (default "+untilLimit.String()+")")
	cmd.Flags().BoolVar(&f.json, "json", false, "print lines of JSON for started machines, status lines and ended machines, instead of a console")
	return cmd
}

// take takes OUT from the arguments and returns the nodes that are to end.
func (f *flags) take(args []string) ([]string, error) {
	f.out = "out"
	// Of one argument to --kill only its being a folder tells whether it is OUT.
	if len(args) > 0 && (!f.kill || len(args) > 1 || isFolder(args[0])) {
		f.out, args = args[0], args[1:]
	}
	if f.test && f.until == "" {
		f.until = untilReady
	}
	if err := f.checkUntil(); err != nil {
		return nil, err
	}
	switch {
	case f.socks != "" && (f.kill || len(f.nodes) == 0 && !f.all):
		return nil, errors.New("--socks goes with the nodes to start: --node NAME or --all")
	case f.kill && (f.all || f.console != "" || f.install || f.medium != ""):
		return nil, errors.New("--kill goes with names of nodes, and with --rm")
	case f.kill:
		return append(args, f.nodes...), nil
	case len(args) > 0:
		return nil, fmt.Errorf("unknown argument %q; name nodes with --node", args[0])
	case f.all && len(f.nodes) > 0:
		return nil, errors.New("--all and --node exclude each other")
	case len(f.nodes) == 0 && !f.all && f.console == "":
		return nil, errors.New("name the nodes with --node, or have them --all")
	case f.socks != "" && door.CheckListen(f.socks) != nil:
		return nil, fmt.Errorf("--socks: %w", door.CheckListen(f.socks))
	case f.json && f.console != "":
		return nil, errors.New("--json and --console exclude each other")
	case f.medium != "" && !slices.Contains(kinds, f.medium):
		return nil, fmt.Errorf("--medium is %q; it can be %s", f.medium, strings.Join(kinds, ", "))
	case f.install && f.medium == mediumDisk:
		return nil, errors.New("--install needs another medium than the disk that it installs on: --medium iso or usb")
	}
	return nil, nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// folder is where the machines keep what they keep.
func (f flags) folder() rehearsal.Folder { return rehearsal.Folder(filepath.Join(f.out, "vm")) }

// run starts the machines and shows them until they have ended, or the user has enough.
func run(ctx context.Context, r *reporter, f flags) error {
	m, err := f.findMedium()
	if err != nil {
		return err
	}
	all, cluster, err := inspect.ReadNodes(m.image)
	if err != nil {
		return err
	}
	names := f.nodes
	if f.all {
		for _, n := range all {
			names = append(names, n.Name)
		}
	}
	names = once(names)
	if f.console != "" && !slices.Contains(names, f.console) {
		return exit.Usage(fmt.Errorf("--console names %s, which is not among the nodes that are started", f.console))
	}
	machines, err := rehearsal.Plan(cluster, all, names)
	if err != nil {
		return err
	}
	for i := range machines {
		machines[i].Memory += m.memory()
	}
	if err := setMemory(machines, f.memory); err != nil {
		return exit.Usage(err)
	}
	if f.test {
		if err := checkTests(cluster, machines); err != nil {
			return err
		}
	}
	// Before the passphrase is asked for, and before anything is removed.
	s := &session{flags: f, medium: m, reporter: r, folder: f.folder(), cluster: cluster, nodes: all}
	defer s.close()
	if err := s.hold(machines); err != nil {
		return err
	}
	if err := s.secrets(); err != nil {
		return err
	}
	return s.run(ctx)
}

// once leaves out repetitions.
func once(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// setMemory sets what --memory says, for all machines or for one.
func setMemory(machines []rehearsal.Machine, list []string) error {
	for _, s := range list {
		node, amount, one := strings.Cut(s, "=")
		if !one {
			node, amount = "", s
		}
		mib, err := strconv.Atoi(amount)
		if err != nil || mib < 256 {
			return fmt.Errorf("--memory is %q; write MiB, at least 256, or NODE=MIB", s)
		}
		found := false
		for i := range machines {
			if !one || machines[i].Node.Name == node {
				machines[i].Memory, found = mib, true
			}
		}
		if !found {
			return fmt.Errorf("--memory names %q, which is not among the nodes that are started", node)
		}
	}
	return nil
}

// secrets reads the credentials that are given, and makes the bundles of the nodes where none is.
func (s *session) secrets() error {
	given, err := readCredentials(s.flags.credentials)
	if err != nil {
		return err
	}
	if _, ok := given[operator.Credential]; ok {
		if s.flags.keys.Dir != "" {
			return exit.Usage(errors.New("--pki and --credential spore.bundle=FILE exclude each other"))
		}
		if len(s.machines) > 1 {
			return exit.Usage(errors.New("a bundle is for one node: --credential spore.bundle=FILE goes with one --node"))
		}
	}
	var nodes []*facts.Node
	for _, m := range s.machines {
		m.credentials = maps.Clone(given)
		nodes = append(nodes, m.plan.Node)
	}
	_, brought := given[operator.Credential]
	if brought && s.flags.until == "" {
		return nil
	}
	near := []string{".", filepath.Dir(filepath.Clean(s.flags.out))}
	keys, none, err := s.flags.keys.Open(s.cluster, near)
	if err != nil {
		return fmt.Errorf("bundles: %w", err)
	}
	if keys != nil {
		defer keys.Close()
	}
	if !brought {
		if err := s.bundles(keys, nodes, none); err != nil {
			return fmt.Errorf("bundles: %w", err)
		}
	}
	switch {
	case s.flags.until == "":
		return nil
	case keys == nil:
		return s.withoutKeys()
	}
	rights, limit := tree.NodeReader, s.flags.limit()
	if s.flags.test {
		rights, limit = tree.NodeAdmin, limit+s.testsLimit()
	}
	s.asker, err = newAsker(keys, s.cluster, limit, rights)
	return err
}

// bundles makes the bundles of all machines, or says why they have none.
func (s *session) bundles(keys *operator.Keys, nodes []*facts.Node, none string) error {
	if keys == nil {
		for _, m := range s.machines {
			m.bundle = none
		}
		return nil
	}
	made, err := keys.Bundles(nodes, operator.Options{Now: time.Now()})
	if err != nil {
		return err
	}
	for i, m := range s.machines {
		m.credentials[operator.Credential] = made[i].Data
		m.bundle = fmt.Sprintf("bundle %d from %s", made[i].Serial, made[i].Folder)
	}
	return nil
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

// kill ends machines that other processes have started, all of the folder where none is named.
func kill(ctx context.Context, r *reporter, folder rehearsal.Folder, names []string, remove bool) error {
	there, err := folder.Nodes()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = there
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(there, name) {
			errs = append(errs, fmt.Errorf("there is no data of a node %q in %s", name, folder))
			continue
		}
		killed, err := folder.Kill(ctx, name)
		if err == nil && remove {
			err = forget(folder, name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.killed(name, killed, remove)
	}
	return errors.Join(errs...)
}

func forget(folder rehearsal.Folder, node string) error {
	state, err := folder.Hold(node)
	if err != nil {
		return err
	}
	return errors.Join(state.Forget(), state.Close())
}

// attach shows the console of a machine that another process has started.
func attach(ctx context.Context, w io.Writer, folder rehearsal.Folder, node string) error {
	conn, err := dial(folder, node)
	if err != nil {
		return err
	}
	return follow(ctx, w, conn)
}
