// Package serve is the command `spore serve`: boot machines over the network.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/operator"
	"spore/builder/media"
	"spore/builder/netboot"
	"spore/builder/netboot/apart"
	"spore/builder/netboot/control"
	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/builder/pipeline"
	"spore/cluster/answers"
	"spore/cluster/facts"
)

type flags struct {
	card, dhcp, addresses string
	http                  int
	tftp                  string
	install               []string
	answers               []string
	keys                  operator.Folder
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "serve [OUT]",
		Short: "Boot machines over the network (PXE, UEFI HTTP boot, iPXE)",
		Long: `Serve boots machines with the image in the folder OUT/netboot (see spore build --format netboot): by PXE with BIOS or
UEFI, by UEFI HTTP boot, and by iPXE. The server recognises each machine by its network cards, serial number or UUID,
and tells it which node it is. A machine that does not match any node shows a screen that says so, and is listed here.

With --dhcp proxy another DHCP server gives the addresses, and this one tells machines that boot from the network what
to load. With --dhcp full it is the only DHCP server of the network, and nodes get their addresses of cluster.yaml. Use
full only on a network without another DHCP server.

A node that needs its secrets shows a fingerprint on its console. When the same fingerprint is printed here, type
approve FINGERPRINT, or run spore approve OUT FINGERPRINT in another terminal: the machine gets its node's bundle,
encrypted to its own key. Other words that you can type: list, deny FINGERPRINT, help.

Ports 67, 69 and 80 need root, or the capability cap_net_bind_service. A separate process answers them; it gives up root
and can read only OUT. What you type here is done as the user who called sudo.`,
		Example: "  sudo spore serve out\n  sudo spore serve out --dhcp full --interface eth1\n  spore serve out --dhcp off --tftp-port off --http-port 8080\n  sudo spore serve out --dhcp full --install edge-01=S4EVNF0M123456\n  sudo spore serve out --answers edge-01.yaml",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := "out"
			if len(args) == 1 {
				out = args[0]
			}
			return run(cmd.Context(), cmd.OutOrStdout(), cmd.InOrStdin(), out, f)
		},
	}
	cmd.Flags().StringVar(&f.card, "interface", "", "network interface to the machines, or its address (default: the one in the nodes' network)")
	cmd.Flags().StringVar(&f.dhcp, "dhcp", "proxy", "proxy: beside another DHCP server; full: the only one; off")
	cmd.Flags().StringVar(&f.addresses, "range", "", "FIRST-LAST, the addresses for machines that do not match any node, with --dhcp full (default: the last ones of the network)")
	cmd.Flags().IntVar(&f.http, "http-port", netboot.HTTPPort, "TCP port of HTTP")
	cmd.Flags().StringVar(&f.tftp, "tftp-port", strconv.Itoa(netboot.TFTPPort), "UDP port of TFTP, or off")
	cmd.Flags().StringArrayVar(&f.install, "install", nil, "NODE=SERIAL: have the node install itself on the disk with this serial number, and send it there afterwards")
	cmd.Flags().StringArrayVar(&f.answers, "answers", nil, "answer file by which its node installs itself, and starts from its disk afterwards")
	f.keys.Register(cmd)
	return cmd
}

// options makes sense of the flags.
func (f flags) options(out string) (netboot.Options, error) {
	o := netboot.Options{Dir: filepath.Join(out, pipeline.NetbootName), HTTPPort: f.http, Install: map[string]string{}, Now: time.Now}
	switch f.dhcp {
	case string(dhcp.Proxy), string(dhcp.Full):
		o.DHCP = dhcp.Mode(f.dhcp)
	case "off":
	default:
		return o, fmt.Errorf("--dhcp is %q; use proxy, full or off", f.dhcp)
	}
	if f.http < 0 || f.http > 65535 {
		return o, fmt.Errorf("--http-port is %d; use 1 to 65535, or 0 for a free one", f.http)
	}
	o.TFTPPort = -1
	if f.tftp != "off" {
		n, err := strconv.ParseUint(f.tftp, 10, 16)
		if err != nil {
			return o, fmt.Errorf("--tftp-port is %q; use a port or off", f.tftp)
		}
		o.TFTPPort = int(n)
	}
	if f.addresses != "" {
		first, last, ok := strings.Cut(f.addresses, "-")
		var err1, err2 error
		o.First, err1 = netip.ParseAddr(first)
		o.Last, err2 = netip.ParseAddr(last)
		if !ok || err1 != nil || err2 != nil {
			return o, fmt.Errorf("--range is %q; write two addresses, such as 10.0.0.200-10.0.0.250", f.addresses)
		}
		if o.DHCP != dhcp.Full {
			return o, errors.New("--range goes with --dhcp full")
		}
	}
	for _, i := range f.install {
		node, serial, ok := strings.Cut(i, "=")
		if !ok || node == "" || serial == "" || strings.ContainsFunc(serial, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return o, fmt.Errorf("--install is %q; write NODE=SERIAL, with the serial number of a disk", i)
		}
		o.Install[node] = serial
	}
	return o, nil
}

// readAnswers reads the answer files and checks them against the cluster that is served.
func (f flags) readAnswers(w io.Writer, nodes *roster.Nodes, o *netboot.Options) error {
	o.Answers = map[string]string{}
	var known []facts.Node
	for _, n := range nodes.All {
		known = append(known, *n)
	}
	for _, name := range f.answers {
		file, report, err := answers.Read(name)
		if err != nil {
			return err
		}
		report = append(report, answers.Check(file, known)...).Sorted()
		fmt.Fprint(w, report)
		if report.Failed() {
			return fmt.Errorf("the answer file %s does not fit the image that is served", name)
		}
		if o.Install[file.Node] != "" {
			return exit.Usage(fmt.Errorf("%s is to install itself twice, and %s is the second order: give one", file.Node, name))
		}
		o.Install[file.Node], o.Answers[file.Node] = file.Disk.Word(), string(file.Data)
	}
	return nil
}

func run(ctx context.Context, w io.Writer, in io.Reader, out string, f flags) error {
	o, err := f.options(out)
	if err != nil {
		return exit.Usage(err)
	}
	nodes, err := roster.Read(filepath.Join(o.Dir, media.NetbootCluster))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; make the folder with `spore build --format netboot -o %s`", err, out)
	}
	if err != nil {
		return err
	}
	if err := f.readAnswers(w, nodes, &o); err != nil {
		return err
	}
	cards, err := netboot.Cards()
	if err != nil {
		return err
	}
	if o.Card, err = netboot.Choose(cards, f.card, nodes.Cluster.Network.NodeSubnets); err != nil {
		return err
	}
	t := &terminal{w: w, now: time.Now, out: out, keys: f.keys}
	socket, err := control.Listen(out)
	if err != nil {
		return err
	}
	defer socket.Close()
	// What answers the network has no way to the operator's keys, and what has them no root.
	server, err := apart.Start(out, apart.Setup{
		Folder: pipeline.NetbootName, Card: o.Card, DHCP: o.DHCP, First: o.First, Last: o.Last, HTTPPort: o.HTTPPort, TFTPPort: o.TFTPPort, Install: o.Install,
		Answers: o.Answers,
	}, socket, t.say)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := apart.BecomeOperator(filepath.Join(out, control.Name)); err != nil {
		return err
	}
	t.say("cluster %s, %d nodes, at %s on %s", nodes.Cluster.Name, len(nodes.All), server.Base, o.Card.Name)
	t.say("DHCP %s, TFTP %s; type help for what can be typed", f.dhcp, f.tftp)
	// Nothing waits for it: a read of the terminal cannot be ended.
	go t.read(ctx, in)
	return server.Wait(ctx)
}

// Network returns the command that is the server's own process; see package apart.
func Network() *cobra.Command {
	return &cobra.Command{
		Use: apart.Command, Hidden: true, DisableFlagParsing: true, Short: "Answer the network, for spore serve",
		RunE: func(cmd *cobra.Command, args []string) error {
			return apart.Run(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// terminal writes lines that begin with the time, and takes words.
type terminal struct {
	w   io.Writer
	now func() time.Time
	// out is the output folder, and keys the operator's folder: what is typed is done as by `spore approve`.
	out  string
	keys operator.Folder
	mu   sync.Mutex
}

func (t *terminal) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, t.now().Format("15:04:05")+" "+format+"\n", args...)
}
