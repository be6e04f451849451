package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/atomicfile"
	"spore/agent/formation"
	"spore/agent/paths"
	"spore/cluster/facts"
)

// formationUsage is said of wrong usage.
const formationUsage = "usage: spore-agent formation [show [--json] | force SERVICE [--lose NAME,...]]"

// formationProgram is the program whose secrets the gate shares, and formationLeaf the certificate among them.
const (
	formationProgram = "formation"
	formationLeaf    = "agent"
)

// formationCommand answers the other members of this node's quorums until it is stopped; or shows them, or forces one.
func formationCommand(ctx context.Context, m *machine, args []string) error {
	switch {
	case len(args) == 0:
		return serveFormation(ctx, m)
	case args[0] == "show" && (len(args) == 1 || len(args) == 2 && args[1] == "--json"):
		return showFormation(ctx, m, len(args) == 2)
	case args[0] == "force" && (len(args) == 2 || len(args) == 4 && args[2] == "--lose"):
		var lose []string
		if len(args) == 4 {
			lose = strings.Split(args[3], ",")
		}
		return forceFormation(ctx, m, args[1], lose)
	}
	return usageError{formationUsage}
}

// quorumMember is this node, which is one of a cluster's.
func (m *machine) quorumMember() (*facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.node()
	if err == nil && n == nil {
		err = errors.New("this machine is no node")
	}
	return c, n, err
}

// quorums lists the quorum services that the node is a member of.
func quorums(c *facts.Cluster, n *facts.Node) (out []formation.Service) {
	for _, s := range formation.Services() {
		if slices.Contains(s.Initial(c), n.Name) {
			out = append(out, s)
		}
	}
	return out
}

func serveFormation(ctx context.Context, m *machine) error {
	c, n, err := m.quorumMember()
	if err != nil {
		return err
	}
	// A broker that is no controller is one.
	status := "this node is a member of no quorum"
	members := map[string][]string{}
	for _, s := range quorums(c, n) {
		members[s.Name] = s.Initial(c)
		status = "answering the members of this node's quorums"
	}
	ready := func() {
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS="+status); err != nil {
			m.say(err.Error())
		}
	}
	if len(members) == 0 {
		ready()
		<-ctx.Done()
		return nil
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	id, err := m.formationIdentity(func(ref string) string { return filepath.Join(dir, "secret_"+ref) })
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", formation.Port))
	if err != nil {
		return fmt.Errorf("answer other members: %w", err)
	}
	ready()
	server := formation.Server{Cluster: c.ID, Node: n.Name, Members: members, Dir: m.root.At(paths.Formation), Identity: id, Say: m.say}
	return server.Serve(ctx, l)
}

// formationIdentity reads the certificate of the node's agent, whose entries of the bundle lie where at says.
func (m *machine) formationIdentity(at func(ref string) string) (id formation.Identity, err error) {
	for ref, into := range map[string]*[]byte{formationLeaf + "-certificate": &id.Certificate, formationLeaf + "-key": &id.Key} {
		if *into, err = atomicfile.ReadLimited(at(ref), maxSecret); err != nil {
			return id, fmt.Errorf("secret %s of the node's agent: %w", ref, err)
		}
	}
	id.Authorities, err = m.part.Public("agent.crt")
	return id, err
}

// formationOptions are what this node's member of a quorum service works with. The certificate is the one that was laid out
// for the unit that answers: the gate of another unit runs as root, before the service, which never gets to see it.
func (m *machine) formationOptions(c *facts.Cluster, n *facts.Node, s formation.Service) formation.Options {
	status := func(text string) {
		if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", " ")); err != nil {
			m.say(err.Error())
		}
		if err := m.sayWaiting(s.Name, text); err != nil {
			m.say(err.Error())
		}
	}
	client := &formation.Client{
		Cluster: c.ID, Port: formation.Port,
		Identity: func() (formation.Identity, error) {
			return m.formationIdentity(func(ref string) string { return m.root.At(filepath.Join(paths.Secrets, formationProgram, ref)) })
		},
		Addresses: m.addressesOf,
	}
	return formation.Options{
		Service: s.Name, Cluster: c.ID, Node: n.Name, Initial: s.Initial(c), Dir: m.root.At(paths.Formation), Asker: client, Say: m.say, Status: status,
	}
}

// addressesOf lists where another node is asked: its addresses by the configuration, and its name where it has none there.
func (m *machine) addressesOf(name string) ([]string, error) {
	n, err := m.part.Node(name)
	if err != nil {
		return nil, err
	}
	if len(n.IPs) == 0 {
		return []string{n.FQDN}, nil
	}
	return n.IPs, nil
}

// sayWaiting writes for what the start of a service waits, for the status line; "" when it waits no longer.
func (m *machine) sayWaiting(service, text string) error {
	path := m.root.At(filepath.Join(paths.Waiting, service))
	if text == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	_, err := atomicfile.Write(path, []byte(text), 0o644)
	return err
}

// waiting reads for what services wait, by their names.
func (m *machine) waiting() map[string]string {
	entries, err := os.ReadDir(m.root.At(paths.Waiting))
	if err != nil {
		return nil // No service has waited.
	}
	out := map[string]string{}
	for _, e := range entries {
		// One that is just being written has a name with a dot before it.
		text, err := atomicfile.ReadLimited(m.root.At(filepath.Join(paths.Waiting, e.Name())), maxSecret)
		if err == nil && !strings.HasPrefix(e.Name(), ".") {
			out[e.Name()] = string(text)
		}
	}
	return out
}

// enterQuorum returns when the data of this node's member of a quorum service is such that the service may start, which
// takes as long as the other members do. empty tells whether there is no data; mk makes it, as formation.Options says. It is
// called as root, before the service starts.
func (m *machine) enterQuorum(ctx context.Context, s formation.Service, empty func() (bool, error), mk func(context.Context, formation.Plan) error) (formation.Kind, error) {
	c, n, err := m.quorumMember()
	if err != nil {
		return "", err
	}
	o := m.formationOptions(c, n, s)
	o.Empty, o.Make = empty, mk
	return formation.Enter(ctx, o)
}

// shownService is what is shown of a service.
type shownService struct {
	Service string `json:"service"`
	// Waiting is for what its start waits.
	Waiting string             `json:"waiting,omitempty"`
	Members []formation.Member `json:"members"`
}

func showFormation(ctx context.Context, m *machine, asJSON bool) error {
	c, n, err := m.quorumMember()
	if err != nil {
		return err
	}
	shown := []shownService{}
	for _, s := range quorums(c, n) {
		members, err := formation.View(ctx, m.formationOptions(c, n, s))
		if err != nil {
			return err
		}
		waiting, _ := os.ReadFile(m.root.At(filepath.Join(paths.Waiting, s.Name))) // no file: it does not wait
		shown = append(shown, shownService{s.Name, string(waiting), members})
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(shown)
	}
	if len(shown) == 0 {
		fmt.Println("this node is a member of no quorum")
	}
	for _, s := range shown {
		fmt.Println(s.Service)
		for _, member := range s.Members {
			fmt.Printf("  %-20s %s\n", member.Name, member)
		}
		if s.Waiting != "" {
			fmt.Println("  " + s.Waiting)
		}
	}
	return nil
}

func forceFormation(ctx context.Context, m *machine, name string, lose []string) error {
	s, ok := formation.Lookup(name)
	if !ok {
		return usageError{fmt.Sprintf("%s is no quorum service\n%s", name, formationUsage)}
	}
	c, n, err := m.quorumMember()
	if err != nil {
		return err
	}
	p, err := formation.Force(ctx, m.formationOptions(c, n, s), lose)
	if err != nil {
		return err
	}
	fmt.Printf("%s will be formed anew by %s; the other members join. Go on with\n  systemctl stop %s\n", s.Name, strings.Join(p.Names(), ", "), s.Unit)
	if slices.Contains(lose, n.Name) {
		// Where it stays, the start of Kafka refuses it, and that of a monitor clears it.
		dir := strings.ReplaceAll(s.Data, "NODE", n.Name)
		fmt.Printf("  mv %s %s.given-up\n", dir, dir)
	}
	fmt.Printf("  systemctl start %s\n", s.Unit)
	return nil
}
