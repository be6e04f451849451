// Package quorum is this node as a member of its quorum services: how it enters one before the service starts, how it
// answers the other members, and what an operator sees of one and forces. Package formation has the rules.
package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/api"
	"spore/agent/formation"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services"
	"spore/wire/nodeapi"
)

// Of lists the quorum services that the node is a member of.
func Of(c *facts.Cluster, n *facts.Node) (out []formation.Service) {
	for _, s := range formation.Services(services.Of(c)) {
		if slices.Contains(s.Initial(c), n.Name) {
			out = append(out, s)
		}
	}
	return out
}

// Row is how this node answers the other members of its quorums.
func Row(m *node.Machine, c *facts.Cluster, n *facts.Node) api.Row {
	members := map[string][]string{}
	for _, s := range Of(c, n) {
		members[s.Name] = s.Initial(c)
	}
	server := &formation.Server{Cluster: c.ID, Node: n.Name, Members: members, Dir: m.Root.At(paths.Formation), Say: m.Say}
	return api.Row{Method: http.MethodGet, Path: nodeapi.FormationPath + "{service}", Who: []nodeapi.Role{nodeapi.Node}, Handle: server.Answer}
}

// Options are what this node's member of a quorum service works with. The certificate is the one that was laid out
// for the node's API: the gate of another unit runs as root, before the service, which never gets to see it.
func Options(m *node.Machine, c *facts.Cluster, n *facts.Node, s formation.Service) formation.Options {
	status := func(text string) { m.Waits(s.Name, text) }
	client := &formation.Client{Cluster: c.ID, API: m.Client()}
	return formation.Options{
		Service: s.Name, Cluster: c.ID, Node: n.Name, Initial: s.Initial(c), Dir: m.Root.At(paths.Formation), Asker: client, Say: m.Say, Status: status,
	}
}

// Enter returns when the data of this node's member of a quorum service is such that the service may start, which takes
// as long as the other members do. empty tells whether there is no data; mk makes it, as formation.Options says. It is
// called as root, before the service starts.
func Enter(ctx context.Context, m *node.Machine, s formation.Service, empty func() (bool, error), mk func(context.Context, formation.Plan) error) (formation.Kind, error) {
	c, n, err := m.Self()
	if err != nil {
		return "", err
	}
	o := Options(m, c, n, s)
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

// Show shows the members of this node's quorums.
func Show(ctx context.Context, m *node.Machine, out io.Writer, asJSON bool) error {
	c, n, err := m.Self()
	if err != nil {
		return err
	}
	shown := []shownService{}
	for _, s := range Of(c, n) {
		members, err := formation.View(ctx, Options(m, c, n, s))
		if err != nil {
			return err
		}
		waiting, _ := os.ReadFile(m.Root.At(filepath.Join(paths.Waiting, s.Name))) // no file: it does not wait
		shown = append(shown, shownService{s.Name, string(waiting), members})
	}
	if asJSON {
		return json.NewEncoder(out).Encode(shown)
	}
	if len(shown) == 0 {
		fmt.Fprintln(out, "this node is a member of no quorum")
	}
	for _, s := range shown {
		fmt.Fprintln(out, s.Service)
		for _, member := range s.Members {
			fmt.Fprintf(out, "  %-20s %s\n", member.Name, member)
		}
		if s.Waiting != "" {
			fmt.Fprintln(out, "  "+s.Waiting)
		}
	}
	return nil
}

// MayForce says why a quorum is not formed anew. forced is true where the same was said before, and the data is not
// made yet.
func MayForce(ctx context.Context, m *node.Machine, name string, lose []string) (forced bool, err error) {
	c, n, err := m.Self()
	if err != nil {
		return false, err
	}
	s, ok := formation.Lookup(services.Of(c), name)
	if !ok {
		return false, fmt.Errorf("%s is not a quorum service", name)
	}
	return formation.MayForce(ctx, Options(m, c, n, s), lose)
}

// Force forms a quorum anew, and says how to go on.
func Force(ctx context.Context, m *node.Machine, out io.Writer, name string, lose []string) error {
	c, n, err := m.Self()
	if err != nil {
		return err
	}
	s, ok := formation.Lookup(services.Of(c), name)
	if !ok {
		return fmt.Errorf("%s is not a quorum service", name)
	}
	p, err := formation.Force(ctx, Options(m, c, n, s), lose)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s will be formed anew by %s; the other members join. Go on with\n  systemctl stop %s\n", s.Name, strings.Join(p.Names(), ", "), s.Unit)
	if slices.Contains(lose, n.Name) {
		// Where it stays, the start of Kafka refuses it, and that of a monitor clears it.
		dir := strings.ReplaceAll(s.Data, "NODE", n.Name)
		fmt.Fprintf(out, "  mv %s %s.given-up\n", dir, dir)
	}
	fmt.Fprintf(out, "  systemctl start %s\n", s.Unit)
	return nil
}
