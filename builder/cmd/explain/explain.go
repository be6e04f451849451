// Package explain is the command `spore explain`: what would a machine become, and why.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/regular"
	"spore/services"
	"spore/services/service"
)

// Answer is what --json prints.
type Answer struct {
	// Match says which node, and by what.
	Match identity.Result `json:"match"`
	// What follows is empty when the machine does not match any node.
	Node     *facts.Node       `json:"node,omitempty"`
	Targets  []string          `json:"targets,omitempty"`
	Programs []service.Program `json:"programs,omitempty"`
	// StartedBy has the timers, sockets and paths that start services of the node's own roles, by unit.
	StartedBy map[string][]string `json:"startedBy,omitempty"`
	// Directories are those that the node's own roles keep.
	Directories []Directory `json:"directories,omitempty"`
	// OwnPrograms are the programs of programs/, which every node has.
	OwnPrograms []OwnProgram `json:"ownPrograms,omitempty"`
	// Files lists what the node's programs and people read.
	Files []string `json:"files,omitempty"`
	// Manifests are the Kubernetes objects that a master applies, with the places where they were written.
	Manifests []string `json:"manifests,omitempty"`
	// Own are files of overlay/ and units of units/, which the root of every node has.
	Own []OwnFile `json:"own,omitempty"`
	// Exposure are the services of the node's roles of the configuration's own.
	Exposure []Exposure `json:"exposure,omitempty"`
	// Environment holds the text of the environment files by path.
	Environment map[string]string `json:"environment,omitempty"`

	// names are those of all nodes.
	names []string
}

// Command returns the command.
func Command() *cobra.Command {
	var machine identity.Facts
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [DIR] --mac|--ip|--hostname|--serial|--uuid|--node X",
		Short: "Show which node a machine (by MAC, IP, host name, serial) becomes, and why",
		Long: `Explain answers for a machine with the given signs what the image built from the folder DIR (configs when left out)
would do on it: which node it is and by which sign, its roles, systemd targets and programs, the files that it
gets, its environment files, and what overlay/, units/ and programs/ of the folder put into its root. Where this
machine has systemd-analyze, it says how exposed the services of roles/ are. You may combine the signs; --ip and
--hostname stand for what DHCP gives the machine, --node for an explicit choice. The machine runs the same code.`,
		Example: "  spore explain --mac 52:54:00:77:00:0b\n  spore explain configs --ip 10.77.0.12\n  spore explain configs --node edge-01 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			if !given(machine) {
				return exit.Usage(errors.New("describe the machine: --mac, --ip, --hostname, --serial, --uuid or --node"))
			}
			if err := checkSigns(machine); err != nil {
				return exit.Usage(err)
			}
			a, err := Explain(cmd.Context(), dir, machine)
			if err != nil {
				return err
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(a); err != nil {
					return err
				}
			} else if a.Node != nil {
				a.print(cmd.OutOrStdout())
			}
			return a.problem(dir, machine)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&machine.MACs, "mac", nil, "MAC address of a network card (may be given again)")
	f.StringSliceVar(&machine.IPs, "ip", nil, "address that DHCP gives (may be given again)")
	f.StringSliceVar(&machine.Hostnames, "hostname", nil, "host name that DHCP gives")
	f.StringVar(&machine.Serial, "serial", "", "system serial number (SMBIOS)")
	f.StringVar(&machine.UUID, "uuid", "", "system UUID (SMBIOS)")
	f.StringVar(&machine.Cmdline, "node", "", "node that somebody chose")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func given(m identity.Facts) bool {
	return len(m.MACs)+len(m.IPs)+len(m.Hostnames)+len(m.Serial)+len(m.UUID)+len(m.Cmdline) > 0
}

// signs lists what is known of a machine, by the flag that says so.
func signs(m identity.Facts) []sign {
	var out []sign
	add := func(flag string, kind identity.Kind, values ...string) {
		for _, v := range values {
			if v != "" {
				out = append(out, sign{flag, kind, v})
			}
		}
	}
	add("--mac", identity.MAC, m.MACs...)
	add("--serial", identity.Serial, m.Serial)
	add("--uuid", identity.UUID, m.UUID)
	add("--ip", identity.IP, m.IPs...)
	add("--hostname", identity.Hostname, m.Hostnames...)
	return out
}

type sign struct {
	flag  string
	kind  identity.Kind
	value string
}

func checkSigns(m identity.Facts) error {
	var errs []error
	for _, s := range signs(m) {
		if _, err := identity.Normalize(s.kind, s.value); err != nil {
			errs = append(errs, fmt.Errorf("%s %q %w", s.flag, s.value, err))
		}
	}
	return errors.Join(errs...)
}

// Explain reads the configuration folder and answers for one machine.
func Explain(ctx context.Context, dir string, machine identity.Facts) (*Answer, error) {
	c, report := cluster.Check(regular.Folder(dir), cluster.Options{})
	if err := report.Under(dir).Err(); err != nil {
		return nil, err
	}
	shared, nodes := cluster.Facts(c)
	index, err := identity.Build(cluster.Identities(nodes))
	if err != nil {
		return nil, err
	}
	x, err := identity.FromBytes(index)
	if err != nil {
		return nil, err
	}
	a := &Answer{names: facts.Names(nodes)}
	if a.Match, err = x.Match(machine); err != nil || a.Match.Node == "" {
		return a, err
	}
	for i := range nodes {
		if nodes[i].Name == a.Match.Node {
			a.fill(c, &shared, &nodes[i])
			a.Exposure = exposures(ctx, c, &nodes[i])
		}
	}
	return a, nil
}

func (a *Answer) fill(c *cluster.Config, shared *facts.Cluster, n *facts.Node) {
	a.Node, a.Targets, a.Programs = n, services.NodeTargets(shared, n), services.NodePrograms(shared, n)
	env := services.Environment(shared, n, 0)
	a.Environment = map[string]string{}
	for name, text := range env {
		a.Environment[services.EnvironmentDir+"/"+name] = string(text)
	}
	a.Files = nodeFiles(c, n, env)
	if slices.Contains(n.Roles, "control-plane") {
		for _, m := range cluster.ManifestFacts(c) {
			a.Manifests = append(a.Manifests, fmt.Sprintf("%s (%s:%d)", m.Name(), m.File, m.Line))
		}
	}
	a.ownRoles(c, n)
	a.OwnPrograms = ownPrograms(c)
	a.Own = ownFiles(c)
}

// problem is nil when the machine is one node.
func (a *Answer) problem(dir string, m identity.Facts) error {
	if a.Match.By == identity.ByCmdline && a.Match.Node == "" { // which is --node here
		return facts.NoNode(filepath.Join(dir, "cluster.yaml"), m.Cmdline, a.names)
	}
	if a.Match.Problem != "" {
		return errors.New(a.Match.Problem)
	}
	if a.Node != nil {
		return nil
	}
	var parts []string
	for _, s := range signs(m) {
		parts = append(parts, fmt.Sprintf("%s %s", s.kind, s.value))
	}
	return fmt.Errorf("the machine does not match any node by %s; it would start no role. To make it a node, add to nodes in %s/cluster.yaml: %s",
		strings.Join(parts, ", "), strings.TrimSuffix(dir, "/"), entry(m))
}

// entry is what to write into cluster.yaml for a machine.
func entry(m identity.Facts) string {
	parts := []string{"name: NAME"}
	list := func(key string, values []string) {
		if len(values) > 0 {
			parts = append(parts, fmt.Sprintf("%s: [%q]", key, strings.Join(values, `", "`)))
		}
	}
	one := func(key, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%s: %q", key, value))
		}
	}
	list("macs", m.MACs)
	list("ips", m.IPs)
	one("serial", m.Serial)
	one("uuid", m.UUID)
	if len(m.Hostnames) > 0 {
		host, _, _ := strings.Cut(m.Hostnames[0], ".")
		one("hostname", host)
	}
	return "{" + strings.Join(append(parts, "roles: [ROLE]"), ", ") + "}"
}

func (a *Answer) print(w io.Writer) {
	row := func(key, format string, args ...any) { fmt.Fprintf(w, "%-12s%s\n", key, fmt.Sprintf(format, args...)) }
	row("node", "%s (%s)", a.Node.Name, a.Node.FQDN)
	row("because", "%s", because(a.Match))
	row("roles", "%s", orNone(a.Node.Roles))
	row("targets", "%s", orNone(a.Targets))
	for i, p := range a.Programs {
		key := "programs"
		if i > 0 {
			key = ""
		}
		waits := ""
		if p.WaitsForSecrets() {
			waits = ", waits for the node's secrets"
		}
		row(key, "%s (%s, %s%suser %s%s)", p.Name, p.Unit, a.startedBy(p.Unit), portsOf(p), p.User, waits)
	}
	for i, d := range a.Directories {
		key := "directories"
		if i > 0 {
			key = ""
		}
		row(key, "%s (%s)", d.Path, d.note())
	}
	row("network", "%s", network(a.Node))
	for i, text := range a.Manifests {
		key := "manifests"
		if i > 0 {
			key = ""
		}
		row(key, "%s", text)
	}
	fmt.Fprintln(w, "files")
	for _, f := range a.Files {
		fmt.Fprintf(w, "  %s\n", f)
		for _, line := range strings.SplitAfter(a.Environment[f], "\n") {
			if line != "" {
				fmt.Fprintf(w, "    %s", line)
			}
		}
	}
	if len(a.Own) > 0 {
		fmt.Fprintln(w, "files of the configuration, in the root of every node")
	}
	for _, f := range a.Own {
		fmt.Fprintf(w, "  %s (%s)%s\n", f.Path, f.From, f.note())
	}
	if len(a.OwnPrograms) > 0 {
		fmt.Fprintln(w, "programs of the configuration, in the root of every node")
	}
	for _, p := range a.OwnPrograms {
		fmt.Fprintf(w, "  %s (%s)%s\n", strings.Join(p.Paths, ", "), p.From, p.note())
	}
	printExposures(w, a.Exposure)
}

// portsOf lists a program's ports with a comma behind them; it is empty where there are none.
func portsOf(p service.Program) string {
	var out []string
	for _, port := range p.Ports {
		out = append(out, port.String())
	}
	if out == nil {
		return ""
	}
	return strings.Join(out, " ") + ", "
}

func because(r identity.Result) string {
	switch r.By {
	case identity.ByCmdline:
		return "somebody chose it (--node)"
	case identity.ByIP, identity.ByHostname:
		return fmt.Sprintf("DHCP gives it the %s %s (phase two; this is no proof)", r.By, r.Value)
	}
	return fmt.Sprintf("its %s is %s (phase one; needs no network)", r.By, r.Value)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
