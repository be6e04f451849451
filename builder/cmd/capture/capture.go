// Package capture is the command `spore capture`: packets that a node sends and gets, in a file that others read.
package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// options are the command's flags.
type options struct {
	filter, output, link   string
	lasts                  time.Duration
	packets, bytes, snap   int
	withAPI, dryRun, force bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	o := options{lasts: 30 * time.Second, packets: 100_000, bytes: 100 << 20, snap: machine.MaxSnap}
	cmd := &cobra.Command{
		Use:   "capture [DIR] NODE",
		Short: "Capture packets on a node into a pcap file",
		Long: `Capture writes packets that a node of the cluster in DIR (configs when left out) sends and gets into a pcap file, which
Wireshark and tcpdump read. It ends after a time, a number of packets or of bytes, whichever comes first, or when you
interrupt it; what came so far is in the file then. At its end it says how many packets the kernel dropped.

The filter is a subset of the language of pcap-filter(7), which the node's kernel works on:
  ip, ip6, arp, tcp, udp, sctp, icmp, icmp6, vlan [NUMBER],
  [ip|ip6|arp] [src|dst] host ADDRESS, [ip|ip6|arp] [src|dst] net PREFIX/LENGTH,
  [tcp|udp|sctp] [src|dst] port NUMBER, [tcp|udp|sctp] [src|dst] portrange NUMBER-NUMBER,
  ether [src|dst] host MAC, and not, and, or, parentheses.
Each value needs its keyword: "port 80 or port 443".

Without --interface it is the interface with the node's address; "any" is all of them. What the node's API itself sends
and gets is left out, for each packet of it would make another one; --with-api takes it in.`,
		Example: "  spore capture edge-01 --filter 'udp port 53' -o dns.pcap\n" +
			"  spore capture configs kafka-01 --filter 'tcp port 9093 and host 10.77.0.12' --for 2m -o kafka.pcap\n" +
			"  spore capture edge-01 --filter arp --for 10m -o - | wireshark -k -i -",
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 2 {
				dir, args = args[0], args[1:]
			}
			f.Nodes = args[:1]
			return run(cmd, f, dir, o)
		},
	}
	f.Register(cmd, false)
	flags := cmd.Flags()
	flags.StringVar(&o.filter, "filter", "", "which packets, as \"tcp port 443 and host 10.0.0.1\" (default: all)")
	flags.StringVarP(&o.output, "output", "o", "", "file to write; - is standard output")
	flags.StringVar(&o.link, "interface", "", "interface of the node, or any")
	flags.DurationVar(&o.lasts, "for", o.lasts, "how long, at most 10m")
	flags.IntVar(&o.packets, "packets", o.packets, "how many packets at most")
	flags.IntVar(&o.bytes, "bytes", o.bytes, "how many bytes of packets at most")
	flags.IntVar(&o.snap, "snaplen", o.snap, "how many bytes of each packet")
	flags.BoolVar(&o.withAPI, "with-api", false, "take in what the node's API sends and gets, this capture too")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be captured")
	flags.BoolVar(&o.force, "overwrite", false, "write over a file that is there")
	return cmd
}

func (o options) order() nodeapi.Order {
	order := nodeapi.Order{DryRun: o.dryRun, Arguments: map[string]string{
		"filter": o.filter, "interface": o.link, "seconds": strconv.Itoa(int((o.lasts + time.Second - 1) / time.Second)),
		"packets": strconv.Itoa(o.packets), "bytes": strconv.Itoa(o.bytes), "snap": strconv.Itoa(o.snap), "api": "no",
	}}
	if o.withAPI {
		order.Arguments["api"] = "yes"
	}
	return order
}

func run(cmd *cobra.Command, f reach.Flags, dir string, o options) error {
	v, order := verb.Row("capture"), o.order()
	if err := v.Check(order); err != nil {
		return exit.Usage(err)
	}
	if err := o.checkOutput(); err != nil {
		return exit.Usage(err)
	}
	c, err := verb.Open(cmd, f, dir, v)
	if err != nil {
		return err
	}
	file := &file{options: o, stdout: cmd.OutOrStdout()}
	answers := verb.Ask(cmd, c, v, verb.Same(order), func(_ string, part json.RawMessage) error {
		var parts machine.Captured
		if err := json.Unmarshal(part, &parts); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		return file.add(parts)
	})
	if err := file.close(); err != nil {
		return err
	}
	if cmd.Context().Err() != nil && file.out != nil { // Somebody interrupted it, and that is how it may end.
		fmt.Fprintf(cmd.ErrOrStderr(), "interrupted: %d packets are in %s; the kernel dropped %d so far\n", file.packets, o.name(), file.dropped)
		return nil
	}
	return verb.Tell(cmd, answers, false, nil)
}

func (o options) checkOutput() error {
	switch {
	case o.dryRun:
		return nil
	case o.output == "":
		return errors.New("name a file for the packets with -o FILE")
	case o.output == "-" && term.IsTerminal(int(os.Stdout.Fd())):
		return errors.New("packets are not for a terminal; name a file with -o FILE, or pipe them into a program")
	}
	if _, err := os.Lstat(o.output); err == nil && !o.force && o.output != "-" {
		return fmt.Errorf("%s is there already; name another file, or give --overwrite", o.output)
	}
	return nil
}

func (o options) name() string {
	if o.output == "-" {
		return "the output"
	}
	return o.output
}

// file is the pcap file, which is made when the node has begun.
type file struct {
	options
	stdout           io.Writer
	out              io.WriteCloser
	pcap             pcap
	snap             int
	packets, dropped uint64
}

// add writes a part. What a node sends is data from outside: the writer is given nothing that would make a file that
// other programs refuse.
func (f *file) add(c machine.Captured) error {
	if f.out == nil {
		if err := f.begin(c); err != nil {
			return err
		}
	}
	for _, p := range c.Packets {
		if p.At < 0 || len(p.Data) > f.snap || p.Length < len(p.Data) || p.Length > 1<<24 {
			return fmt.Errorf("the answer is malformed: %d bytes of a packet of %d", len(p.Data), p.Length)
		}
		if err := f.pcap.packet(p.At, p.Length, p.Data); err != nil {
			return fmt.Errorf("write %s: %w", f.name(), err)
		}
		f.packets++
	}
	f.dropped = c.Dropped
	return nil
}

func (f *file) begin(c machine.Captured) error {
	if c.Link != machine.LinkEthernet && c.Link != machine.LinkCooked || c.Snap < 1 || c.Snap > machine.MaxSnap {
		return errors.New("the answer is malformed: it does not begin with the link")
	}
	f.snap = c.Snap + 64 // The tag of a VLAN, or the header in place of the link's, is beside it.
	var out io.WriteCloser = pipe{f.stdout}
	if f.output != "-" {
		how := os.O_CREATE | os.O_WRONLY | os.O_EXCL
		if f.force {
			how = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		}
		// What is in packets is for whoever captures them.
		made, err := os.OpenFile(f.output, how, 0o600)
		if err != nil {
			return err
		}
		out = made
	}
	f.out, f.pcap = out, pcap{out}
	if err := f.pcap.header(f.snap, uint32(c.Link)); err != nil {
		return fmt.Errorf("write %s: %w", f.name(), err)
	}
	return nil
}

func (f *file) close() error {
	if f.out == nil {
		return nil
	}
	return f.out.Close()
}

// pipe is standard output, which others close.
type pipe struct{ io.Writer }

func (pipe) Close() error { return nil }
