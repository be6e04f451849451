// Package reach is how commands ask the nodes of a running cluster: which nodes there are, where they answer, and by
// which certificate they are asked. It comes from a file that spore access wrote, or is made for the moment from the
// operator's folder.
package reach

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	keys "spore/builder/cmd/pki"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/regular"
	"spore/fleet"
	tree "spore/pki"
	"spore/wire/nodeapi"
)

// momentary is how long a certificate holds that is made for one command, but for those that go on (a follower of
// logs): then the command ends with it.
const momentary = 12 * time.Hour

// PersonForm is what stands in a certificate as a person's name.
var PersonForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$`)

// Kinds are the rows of the table of certificates, by what a person may do.
var Kinds = map[nodeapi.Role]string{
	nodeapi.Reader: tree.NodeReader, nodeapi.Operator: tree.NodeOperator, nodeapi.Admin: tree.NodeAdmin,
}

// Flags say how nodes are reached.
type Flags struct {
	// Access is a file that spore access wrote; where it is empty, DIR.access is taken when it is there.
	Access string
	// PKI is the operator's folder, and the others open it.
	PKI, PassphraseFile, Identity string
	// Nodes are those that are asked; all when there are none. Addresses says where a node is asked, as NODE=HOST or
	// NODE=HOST:PORT.
	Nodes, Addresses []string
	// Everybody keeps the nodes that the certificate is not for: whoever has to know of all asks them, too, and is told
	// that they refuse.
	Everybody bool
	// Shown is what the nodes are shown where somebody has it at hand; nothing is looked for then.
	Shown *nodeapi.Identity
	// Least is what a file of access has to be for at least, where people may be let in by their names: less than what is
	// made for the moment. Empty, it is that.
	Least nodeapi.Role
	// Timeout bounds what is asked of one node.
	Timeout time.Duration
}

// Register adds the flags to a command. Where many is true, it asks all nodes unless some are named.
func (f *Flags) Register(cmd *cobra.Command, many bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.Access, "access", "", "file that spore access wrote (default: DIR.access where it is, else the operator's folder)")
	flags.StringVar(&f.PKI, "pki", "", "the operator's folder (default: DIR.pki beside the configuration folder DIR)")
	flags.StringVar(&f.PassphraseFile, "passphrase-file", "", "read the folder's passphrase from this file instead of the terminal")
	flags.StringVar(&f.Identity, "identity", "", "age identity file, where the folder is encrypted for recipients")
	if many {
		flags.StringArrayVar(&f.Nodes, "node", nil, "ask this node alone (may be given again)")
	}
	flags.StringArrayVar(&f.Addresses, "address", nil, "ask a node at this address instead of the one in cluster.yaml, as NODE=HOST or NODE=HOST:PORT (may be given again)")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Second, "how long to wait for one node")
}

// Cluster is a cluster whose nodes can be asked.
type Cluster = fleet.Cluster

// Open finds the cluster of a configuration folder. need is nodeapi.Admin for what changes nodes, nodeapi.Reader
// otherwise.
func (f Flags) Open(cmd *cobra.Command, dir string, need nodeapi.Role) (*Cluster, error) {
	config, report := cluster.Check(regular.Folder(dir), cluster.Options{})
	if err := report.Under(dir).Err(); err != nil {
		return nil, err
	}
	shared, nodes := cluster.Facts(config)
	out := &Cluster{Facts: shared, Timeout: f.Timeout}
	if f.Timeout <= 0 {
		return nil, exit.Usage(fmt.Errorf("the timeout %s is not valid; write it as 10s", f.Timeout))
	}
	var err error
	if out.Nodes, err = choose(nodes, f.Nodes, dir); err != nil {
		return nil, err
	}
	at, err := f.places(nodes, dir)
	if err != nil {
		return nil, err
	}
	identity, only, err := f.identity(cmd, dir, &shared, need)
	if err != nil {
		return nil, err
	}
	if !f.Everybody {
		if out.Nodes, err = within(out.Nodes, only, len(f.Nodes) > 0); err != nil {
			return nil, err
		}
	}
	out.Client = nodeapi.Client{
		Identity:  func() (nodeapi.Identity, error) { return identity, nil },
		Addresses: func(node string) ([]string, error) { return at[node], nil },
	}
	return out, nil
}

// choose finds the nodes that were named.
func choose(nodes []facts.Node, names []string, dir string) ([]facts.Node, error) {
	if len(names) == 0 {
		return nodes, nil
	}
	var out []facts.Node
	for _, n := range nodes {
		if slices.Contains(names, n.Name) {
			out = append(out, n)
		}
	}
	for _, name := range names {
		if _, err := facts.Find(nodes, name, filepath.Join(dir, "cluster.yaml")); err != nil {
			return nil, exit.Usage(err)
		}
	}
	return out, nil
}

// within leaves out the nodes that a certificate does not hold for. Those that were named have to be among them.
func within(nodes []facts.Node, only []string, named bool) ([]facts.Node, error) {
	if len(only) == 0 {
		return nodes, nil
	}
	out := slices.DeleteFunc(slices.Clone(nodes), func(n facts.Node) bool { return !slices.Contains(only, n.Name) })
	if named && len(out) < len(nodes) || len(out) == 0 {
		return nil, exit.Usage(fmt.Errorf("the certificate is limited to %s; make another one with "+
			"`spore access --node`", strings.Join(only, ", ")))
	}
	return out, nil
}

// places is where each node is asked: where the operator says, else at its addresses, else by its name.
func (f Flags) places(nodes []facts.Node, dir string) (map[string][]string, error) {
	at := map[string][]string{}
	for _, n := range nodes {
		at[n.Name] = n.IPs
		if len(n.IPs) == 0 {
			at[n.Name] = []string{n.FQDN}
		}
	}
	given := map[string][]string{}
	for _, text := range f.Addresses {
		name, place, ok := strings.Cut(text, "=")
		if !ok || place == "" {
			return nil, exit.Usage(fmt.Errorf("the address %q is not valid; write it as NODE=HOST or NODE=HOST:PORT", text))
		}
		if _, known := at[name]; !known {
			return nil, exit.Usage(facts.NoNode(filepath.Join(dir, "cluster.yaml"), name, facts.Names(nodes)))
		}
		if _, port, err := net.SplitHostPort(place); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return nil, exit.Usage(fmt.Errorf("the port of %q is not valid", text))
			}
		}
		given[name] = append(given[name], place)
	}
	for name, places := range given {
		at[name] = places
	}
	return at, nil
}

// identity is what the nodes are shown, and the nodes that it is limited to; nil is none.
func (f Flags) identity(
	cmd *cobra.Command, dir string, c *facts.Cluster, need nodeapi.Role,
) (nodeapi.Identity, []string, error) {
	if f.Shown != nil {
		return *f.Shown, nil, nil
	}
	clean := filepath.Clean(dir)
	if f.Access != "" {
		return f.fromFile(f.Access, c, need)
	}
	folder := f.PKI
	if folder == "" {
		folder = clean + ".pki"
		usual := clean + ".access"
		id, only, err := f.fromFile(usual, c, need)
		if err == nil {
			return id, only, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v; taking the operator's folder %s\n", err, folder)
		}
	}
	v, err := keys.Open(folder, f.PassphraseFile, f.Identity)
	if err != nil {
		return nodeapi.Identity{}, nil, fmt.Errorf("find a certificate to ask the nodes with: %w; or name a file of "+
			"`spore access` with --access", err)
	}
	defer v.Close()
	made, err := v.Tree.Access(c, Kinds[need], Person(), momentary, tree.Options{Now: time.Now(), Random: rand.Reader})
	if err != nil {
		return nodeapi.Identity{}, nil, fmt.Errorf("make a certificate to ask the nodes with: %w", err)
	}
	id := nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}
	return id, nil, nil
}

// fromFile reads a file of access that is of use here.
func (f Flags) fromFile(path string, c *facts.Cluster, need nodeapi.Role) (nodeapi.Identity, []string, error) {
	data, err := readFile(path)
	if err != nil {
		return nodeapi.Identity{}, nil, err
	}
	a, err := ParseAccess(data)
	switch {
	case err != nil:
	case !strings.EqualFold(a.Cluster, c.ID):
		err = fmt.Errorf("it is for the cluster with the id %.64s, and the configuration has %s", a.Cluster, c.ID)
	case time.Now().After(a.Ends):
		err = fmt.Errorf("it expired at %s; make another one with `spore access`", a.Ends.Format(time.RFC3339))
	case !a.Role.Covers(cmp.Or(f.Least, need)):
		err = fmt.Errorf("it is for the role %s; make one with `spore access --role %s`", fleet.RoleName(a.Role), fleet.RoleName(cmp.Or(f.Least, need)))
	}
	if err != nil {
		return nodeapi.Identity{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	return a.identity(), a.Nodes, nil
}

// readFile reads a file that is bounded.
func readFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxAccess {
		return nil, fmt.Errorf("%s: it has more than %d bytes", path, maxAccess)
	}
	return os.ReadFile(path)
}

// Person is the name of whoever runs the command, for what nodes see of it.
func Person() string {
	if u, err := user.Current(); err == nil && PersonForm.MatchString(u.Username) {
		return u.Username
	}
	return "operator"
}

// Answer is what came of asking one node.
type Answer[T any] = fleet.Answer[T]

// Each asks every node (fleet.Each).
func Each[T any](ctx context.Context, c *Cluster, ask func(context.Context, facts.Node) (T, error)) []Answer[T] {
	return fleet.Each(ctx, c, ask)
}
