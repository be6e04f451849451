package pki

import (
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
	"spore/wire/nodeapi"
)

// Rows of Leaves whose kind of certificate people are given.
const (
	KubernetesAdmin = "kubernetes-admin"
	NodeAdmin       = "node-admin"
	NodeOperator    = "node-operator"
	NodeReader      = "node-reader"
)

// NodeScraper is the kind of certificate of a program that asks the nodes' API for metrics and for nothing else. It has
// no row, since the operator's folder has none of its own.
const NodeScraper = "node-scraper"

// minPersonLife leaves time to use it.
const minPersonLife = 5 * time.Minute

// KubernetesLife is how long a person's certificate for Kubernetes lives at most: Kubernetes cannot take one back.
const KubernetesLife = 8 * time.Hour

// Admin is the right of one person, for a time.
type Admin struct {
	// Certificate is the chain without the root, and Key its key as PKCS #8, both PEM.
	Certificate string
	Key         Hidden
	// Authority holds the certificates in PEM that servers are verified with.
	Authority []byte
	// Ends is when the certificate ends.
	Ends time.Time
	// Serial is its serial number (nodeapi.Serial).
	Serial string
}

// Admin makes a client certificate with a new key for a person who administers Kubernetes, and appears under that name
// in its audit log. The tree keeps neither: nobody can take it back before it ends, except by replacing the authority.
func (t *Tree) Admin(c *facts.Cluster, person string, life time.Duration, o Options) (*Admin, error) {
	return t.person(c, personal{row: KubernetesAdmin, server: "kubernetes-server", name: person, life: life}, o)
}

// Member makes a client certificate in the same way for a person who is in one group of Kubernetes, and has no other
// right (kubernetes.PersonGroup).
func (t *Tree) Member(c *facts.Cluster, person, group string, life time.Duration, o Options) (*Admin, error) {
	return t.person(c, personal{
		row: KubernetesAdmin, server: "kubernetes-server", name: person, groups: []string{group}, life: life,
	}, o)
}

// Access makes a client certificate in the same way for a person who asks the nodes' API; row is NodeAdmin,
// NodeOperator, NodeReader or, for a program, NodeScraper.
func (t *Tree) Access(c *facts.Cluster, row, person string, life time.Duration, o Options) (*Admin, error) {
	return t.person(c, asker(row, person, life), o)
}

// AccessTo is Access to some nodes alone.
func (t *Tree) AccessTo(
	c *facts.Cluster, row, person string, nodes []string, life time.Duration, o Options,
) (*Admin, error) {
	limit, err := nodeapi.Limit(nodes)
	if err != nil {
		return nil, err
	}
	p := asker(row, person, life)
	p.more = []pkix.Extension{limit}
	return t.person(c, p, o)
}

// asker is a certificate for the nodes' API.
func asker(row, name string, life time.Duration) personal {
	p := personal{row: row, server: "agent", name: name, life: life}
	if row == NodeScraper {
		p.row, p.groups = NodeReader, []string{string(nodeapi.Scraper)}
	}
	return p
}

// personal is a certificate of a row of the operator's, for a person who verifies servers by the authority server.
type personal struct {
	row, server, name string
	// groups replaces the organization of the row where it is not empty.
	groups []string
	life   time.Duration
	more   []pkix.Extension
}

// person makes a certificate for a person.
func (t *Tree) person(c *facts.Cluster, p personal, o Options) (*Admin, error) {
	if err := t.isFor(c); err != nil {
		return nil, err
	}
	leaves := Leaves(services.Of(c))
	i := slices.IndexFunc(leaves, func(l service.LeafRow) bool { return l.Name == p.row })
	if i < 0 {
		return nil, fmt.Errorf("internal error: the table has no row %s", p.row)
	}
	row := leaves[i]
	a := t.Authorities[row.Authority]
	if a == nil {
		return nil, fmt.Errorf("there is no authority %s; enable kubernetes, give a node the role control-plane, and run `spore pki renew`", row.Authority)
	}
	most := LeafLife
	if p.row == KubernetesAdmin {
		most = KubernetesLife
	}
	if p.life < minPersonLife || p.life > most {
		return nil, fmt.Errorf("the lifetime %s is out of bounds; choose %s to %s", p.life, minPersonLife, most)
	}
	by, err := a.Current.signer(row.Authority, nil)
	if err != nil {
		return nil, err
	}
	key, err := newECDSA(o.Random)
	if err != nil {
		return nil, err
	}
	o.Now = o.Now.UTC().Truncate(time.Second)
	groups := row.Organization
	if len(p.groups) > 0 {
		groups = p.groups
	}
	template, err := o.leafTemplate(Leaf{Row: row, CommonName: p.name, Organization: groups})
	if err != nil {
		return nil, err
	}
	template.NotAfter, template.ExtraExtensions = o.Now.Add(p.life), p.more
	made := &Certificate{}
	if made.Key, err = encodeKey(key); err != nil {
		return nil, err
	}
	if made.Certificate, err = o.sign(template, key.Public(), by); err != nil {
		return nil, err
	}
	return &Admin{
		Certificate: t.Chain(row.Authority, made), Key: made.Key, Ends: template.NotAfter,
		Serial:    nodeapi.Serial(template.SerialNumber),
		Authority: t.Public().Files()[PublicDir+"/"+p.server+".crt"],
	}, nil
}

// KnownAs tells whether the certificate of a master's API server holds for the host of a URL.
func KnownAs(c *facts.Cluster, master *facts.Node, u *url.URL) (bool, error) {
	share, err := ShareOf(c, master)
	if err != nil {
		return false, err
	}
	for _, l := range share.Leaves {
		if l.Row.Name != "kube-apiserver" {
			continue
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			return slices.Contains(l.IPs, ip.Unmap()), nil
		}
		return slices.Contains(l.DNS, u.Hostname()), nil
	}
	return false, fmt.Errorf("node %s is not a control plane", master.Name)
}

// APIServer is where people reach the Kubernetes API: its virtual address, else the first master's.
func APIServer(c *facts.Cluster, master *facts.Node) string {
	host := c.Network.ControlPlaneEndpoint
	if host == "" && len(master.IPs) > 0 {
		host = master.IPs[0]
	}
	if host == "" {
		host = master.FQDN
	}
	return "https://" + net.JoinHostPort(host, "6443")
}
