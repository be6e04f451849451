// Package render makes the files of a role that a user wrote (package role) from what the node knows. It stands apart,
// so that only what renders them has templates in it.
package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/cluster/role/setting"
	"spore/cluster/role/template"
	"spore/services/rendering"
)

// File is a file of a role on a node.
type File struct {
	// Path is where it lies.
	Path string
	Data []byte
	Mode fs.FileMode
	// Owner and Group are names.
	Owner, Group string
}

// Files makes the files of a role on a node, in their order. The same input gives the same bytes; it ends when ctx
// does.
func Files(ctx context.Context, d *role.Definition, in rendering.Input) ([]File, error) {
	own, ok := in.Cluster.Services.Get(d.Name).(*role.Settings)
	if !ok {
		return nil, fmt.Errorf("render the files of the role %s: cluster.yaml does not list the service %s", d.Name,
			d.Name)
	}
	dot, err := dataOf(in, own)
	if err != nil {
		return nil, fmt.Errorf("render the files of the role %s: %w", d.Name, err)
	}
	var out []File
	for _, f := range d.FilesFilled() {
		text, err := one(ctx, d, f, in, own, dot)
		if err != nil {
			return nil, fmt.Errorf("render the file %s of the role %s: %w", f.Path, d.Name, err)
		}
		out = append(out, File{Path: f.Path, Data: text, Mode: fs.FileMode(role.Permissions(f.Mode)), Owner: f.Owner,
			Group: f.Group})
	}
	return out, nil
}

func one(ctx context.Context, d *role.Definition, f role.File, in rendering.Input, own *role.Settings,
	dot *template.Data) ([]byte, error) {
	text, ok := d.Templates[f.Template]
	if !ok {
		return nil, fmt.Errorf("internal error: there is no template %s", f.Template)
	}
	parsed, err := template.Parse(f.Template, text)
	if err != nil {
		return nil, fmt.Errorf("template %s, %w", f.Template, err)
	}
	readable := d.Readable(f, own)
	named := func(name string) error {
		if slices.Contains(readable, name) {
			return nil
		}
		return fmt.Errorf("the file does not name the secret %.64q; add it to its secrets in roles/%s.yaml", name,
			d.Name)
	}
	return parsed.Render(ctx, template.Given{
		Data: dot,
		Secret: func(name string) (string, error) {
			if err := named(name); err != nil {
				return "", err
			}
			if in.Secret == nil {
				return "", errors.New("the node has no secrets")
			}
			value, err := in.Secret(name)
			return string(value), err
		},
		SecretPath: func(name string) (string, error) {
			if err := named(name); err != nil {
				return "", err
			}
			if in.SecretPath == nil {
				return "", errors.New("the node has no secrets")
			}
			return in.SecretPath(name), nil
		},
		Authority: func(name string) (string, error) {
			if !slices.Contains(d.Authorities(), name) {
				return "", fmt.Errorf("the role has no authority %.64q", name)
			}
			if in.Authority == nil {
				return "", errors.New("the node knows no authority")
			}
			certificate, err := in.Authority(name + ".crt")
			return string(certificate), err
		},
	})
}

// dataOf is the dot of the templates.
func dataOf(in rendering.Input, own *role.Settings) (*template.Data, error) {
	values, err := own.Values()
	if err != nil {
		return nil, err
	}
	members, err := membersOf(in)
	if err != nil {
		return nil, err
	}
	n := template.Node{
		Name: in.Node.Name, Hostname: in.Node.Hostname, FQDN: in.Node.FQDN, IPs: in.Node.IPs, MACs: in.Node.MACs,
		Roles: in.Node.Roles, Rack: in.Node.Rack,
		Labels: in.Node.Labels, Memory: setting.Size(in.Memory),
	}
	for _, a := range rendering.Bindable(in.Addresses) {
		n.Addresses = append(n.Addresses, a.String())
	}
	if a, err := rendering.Address(in); err == nil {
		n = n.At(a.String())
	}
	return template.NewData(n, clusterOf(in.Cluster), values, members), nil
}

func clusterOf(c *facts.Cluster) template.Cluster {
	return template.Cluster{
		Name: c.Name, ID: c.ID, Domain: c.Domain, NodeSubnets: c.Network.NodeSubnets, Gateways: c.Network.Gateways,
		Nameservers: c.Network.Nameservers, NTPServers: c.Network.NTPServers, Nodes: c.Nodes,
	}
}

// membersOf are the nodes of each role with the address that the hosts file has for each; this node's is the one that
// it has.
func membersOf(in rendering.Input) (map[string][]template.Member, error) {
	hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	out := map[string][]template.Member{}
	for role, names := range in.Cluster.Members {
		for _, name := range names {
			m := template.Member{Name: name}
			if found := hosts.Addresses(rendering.Absolute(name, in.Cluster.Domain)); len(found) > 0 {
				m.Address = found[0].String()
			} else if name == in.Node.Name {
				if own, err := rendering.Address(in); err == nil {
					m.Address = own.String()
				}
			}
			out[role] = append(out[role], m)
		}
	}
	return out, nil
}
