package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/services/ceph/cephx"
	"spore/services/service"
)

// Change is one thing that Update did.
type Change struct {
	// ID is the authority's name, or the ID of the leaf or secret.
	ID string `json:"id"`
	// Did is made, renewed, replaced, kept (under another ID) or dropped.
	Did string `json:"did"`
	// Why says the reason.
	Why string `json:"why"`
}

// updater carries one Update through.
type updater struct {
	tree    *Tree
	c       *facts.Cluster
	nodes   []facts.Node
	o       Options
	changes []Change
	// signers holds the authorities that were needed so far.
	signers map[string]signer
}

// New returns the empty tree of a cluster.
func New(c *facts.Cluster) *Tree {
	return &Tree{
		Version: TreeVersion, Cluster: c.ID, Name: c.Name,
		Authorities: map[string]*Authority{}, Leaves: map[string]*Certificate{}, Secrets: map[string]*Secret{}, Issued: map[string]Record{},
	}
}

// Update makes the tree what the tables want for a configuration: it makes what is missing, renews what is due, makes
// again what the configuration changed, and drops certificates that nobody needs. Secrets and authorities are kept. The
// tree is to be thrown away when there is an error.
func (t *Tree) Update(c *facts.Cluster, nodes []facts.Node, o Options) ([]Change, error) {
	if err := t.isFor(c); err != nil {
		return nil, err
	}
	o.Now = o.Now.UTC().Truncate(time.Second)
	u := &updater{tree: t, c: c, nodes: nodes, o: o, signers: map[string]signer{}}
	if err := u.authorities(); err != nil {
		return nil, err
	}
	if len(u.changes) > 0 { // Each of them is one of an authority.
		t.Revision++
	}
	shares := []Share{ShareOfOperator(c)}
	for i := range nodes {
		s, err := ShareOf(c, &nodes[i])
		if err != nil {
			return nil, err
		}
		shares = append(shares, s)
	}
	if err := u.leaves(shares); err != nil {
		return nil, err
	}
	if err := u.secrets(shares); err != nil {
		return nil, err
	}
	u.forget()
	t.Name = c.Name
	return u.changes, nil
}

// isFor refuses the configuration of another cluster.
func (t *Tree) isFor(c *facts.Cluster) error {
	if t.Cluster != c.ID {
		return fmt.Errorf("the keys belong to the cluster %s with the id %s, and the configuration to %s with the id %s; name the right folder with --dir", t.Name, t.Cluster, c.Name, c.ID)
	}
	return nil
}

func (u *updater) did(id, did, why string) { u.changes = append(u.changes, Change{id, did, why}) }

func (u *updater) authorities() error {
	for _, row := range Authorities(services.Of(u.c)) {
		a := u.tree.Authorities[row.Name]
		switch {
		case a == nil && !enabled(u.c, row.Service):
			continue
		case a == nil:
			g, err := u.first(row)
			if err != nil {
				return fmt.Errorf("authority %s: %w", row.Name, err)
			}
			u.tree.Authorities[row.Name] = &Authority{Current: g}
			u.did(row.Name, "made", "it is needed")
			continue
		case row.Kind != service.CA:
			continue
		}
		var err error
		if row.Name == RootName {
			err = u.renewRoot(row, a)
		} else {
			err = u.renewAuthority(row, a)
		}
		if err != nil {
			return fmt.Errorf("authority %s: %w", row.Name, err)
		}
	}
	return nil
}

func (u *updater) first(row service.AuthorityRow) (Generation, error) {
	if row.Name == RootName && u.o.Root != nil {
		return u.o.ownGeneration(1)
	}
	return u.o.generation(row, 1, u.c, u.root)
}

// renewRoot lengthens the life of our root, or takes a new certificate of the user's own.
func (u *updater) renewRoot(row service.AuthorityRow, a *Authority) error {
	old, err := parseCertificate(a.Current.Certificate)
	if err != nil {
		return fmt.Errorf("the operator's folder: %w", err)
	}
	if u.o.Now.Before(old.NotBefore) {
		return fmt.Errorf("this machine's clock says %s, and the root begins on %s; set the clock", u.o.Now.Format(time.RFC3339), old.NotBefore.Format(time.RFC3339))
	}
	if u.o.Root != nil {
		return u.ownRoot(a, old)
	}
	if a.Current.Key == "" || u.o.Now.Before(authorityDue(old)) {
		return nil
	}
	key, err := parseKey(a.Current.Key)
	if err != nil {
		return err
	}
	t, err := u.o.authorityTemplate(row, a.Current.Number, u.c)
	if err != nil {
		return err
	}
	if a.Current.Certificate, err = u.o.sign(t, key.Public(), signer{key: key}); err == nil {
		u.did(RootName, "renewed", "it was within 30 days of its end; its key is the same")
	}
	return err
}

func (u *updater) ownRoot(a *Authority, old *x509.Certificate) error {
	own, err := u.o.Root.check(u.o.Now)
	if err != nil {
		return err
	}
	next := a.Next
	switch {
	case samePublic(own.PublicKey, old.PublicKey):
		if text := encodeCertificate(own.Raw); text != a.Current.Certificate && own.NotAfter.After(old.NotAfter) {
			a.Current.Certificate = text
			u.did(RootName, "renewed", "you brought a new certificate of the same key")
		}
	case next != nil && encodeCertificate(own.Raw) == next.Certificate: // waits for its time
	default:
		return errors.New("your root has changed; to replace the root, use `spore pki rotate-ca root`")
	}
	return nil
}

// renewAuthority signs the key of an authority again, when it nears its end or the root is another one.
func (u *updater) renewAuthority(row service.AuthorityRow, a *Authority) error {
	old, err := parseCertificate(a.Current.Certificate)
	if err != nil {
		return fmt.Errorf("the operator's folder: %w", err)
	}
	root, err := parseCertificate(u.tree.Authorities[RootName].Current.Certificate)
	if err != nil {
		return fmt.Errorf("the operator's folder: root: %w", err)
	}
	moved := old.CheckSignatureFrom(root) != nil
	gains := root.NotAfter.After(old.NotAfter.Add(day)) // else renewing would change nothing
	if !moved && (u.o.Now.Before(authorityDue(old)) || !gains) {
		return nil
	}
	by, err := u.root()
	if err != nil {
		return err
	}
	t, err := u.o.authorityTemplate(row, a.Current.Number, u.c)
	if err != nil {
		return err
	}
	text, err := u.o.sign(t, old.PublicKey, by)
	if err != nil {
		return err
	}
	why := "it was within 30 days of its end; its key is the same"
	if moved {
		why, a.Current.Former = "the root is another one; its key is the same", a.Current.Certificate
	}
	a.Current.Certificate = text
	u.did(row.Name, "renewed", why)
	return nil
}

// root returns the root as a signer. Only what really signs asks for it, so that the user's own key can be elsewhere.
func (u *updater) root() (signer, error) {
	return u.signer(RootName)
}

func (u *updater) signer(name string) (signer, error) {
	if s, ok := u.signers[name]; ok {
		return s, nil
	}
	a := u.tree.Authorities[name]
	if a == nil {
		return signer{}, fmt.Errorf("internal error: there is no authority %s", name)
	}
	s, err := a.Current.signer(name, u.o.Root)
	if err == nil {
		u.signers[name] = s
	}
	return s, err
}

func (g *Generation) signer(name string, own *OwnRoot) (signer, error) {
	c, err := parseCertificate(g.Certificate)
	if err != nil {
		return signer{}, fmt.Errorf("the operator's folder: %s: %w", name, err)
	}
	text := g.Key
	if text == "" && own != nil {
		text = own.Key
	}
	if text == "" {
		return signer{}, errors.New("the key of your own root is needed to sign it; name its file with --root-key, or under root: in pki.yaml")
	}
	key, err := parseKey(text)
	if err != nil {
		return signer{}, fmt.Errorf("the key of %s: %w", name, err)
	}
	if !samePublic(key.Public(), c.PublicKey) {
		return signer{}, fmt.Errorf("the key of %s does not belong to its certificate", name)
	}
	return signer{c, key}, nil
}

func (u *updater) leaves(shares []Share) error {
	wanted := map[string]bool{}
	for _, s := range shares {
		for _, l := range s.Leaves {
			if l.Row.Made != service.Operator {
				continue
			}
			wanted[l.ID] = true
			if err := u.leaf(l); err != nil {
				return fmt.Errorf("certificate %s: %w", l.ID, err)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(u.tree.Leaves)) {
		if !wanted[id] {
			delete(u.tree.Leaves, id)
			u.did(id, "dropped", "it is no longer needed")
		}
	}
	return nil
}

// leaf makes a certificate with a new key when there is a reason to.
func (u *updater) leaf(l Leaf) error {
	by, err := u.signer(l.Row.Authority)
	if err != nil {
		return err
	}
	did, why, err := u.reason(l, by)
	if why == "" || err != nil {
		return err
	}
	made, err := u.o.leaf(l, by)
	if err != nil {
		return err
	}
	u.tree.Leaves[l.ID] = &made
	u.did(l.ID, did, why)
	return nil
}

// reason says why a certificate is to be made; nothing when it is good as it is.
func (u *updater) reason(l Leaf, by signer) (did, why string, err error) {
	have := u.tree.Leaves[l.ID]
	if have == nil {
		return "made", "it is needed", nil
	}
	c, err := parseCertificate(have.Certificate)
	if err != nil {
		return "", "", fmt.Errorf("the operator's folder: %w", err)
	}
	if !signedBy(c, by.certificate) {
		return "replaced", "the authority " + l.Row.Authority + " is another one", nil
	}
	if why := differs(c, l); why != "" {
		return "replaced", why, nil
	}
	gains := by.certificate.NotAfter.After(c.NotAfter.Add(day))
	switch {
	case u.o.All:
		return "renewed", "all were asked for", nil
	case !u.o.Now.Before(leafDue(c)) && gains:
		return "renewed", "two thirds of its life were over", nil
	}
	return "", "", nil
}

func (u *updater) secrets(shares []Share) error {
	given, allowed := maps.Clone(u.o.Given), map[string]bool{}
	changed, seen, wanted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range shares {
		for _, e := range s.Secrets {
			wanted[e.ID] = true
		}
	}
	for _, s := range shares { // the operator's first: others derive from them
		for _, e := range s.Secrets {
			if seen[e.ID] {
				continue
			}
			seen[e.ID] = true
			value, isGiven := given[e.Name]
			if e.Row.Given {
				allowed[e.Name] = true
			}
			if isGiven && e.Row.Given {
				delete(given, e.Name)
			}
			u.rename(e, wanted, changed)
			if err := u.secret(e, value, isGiven && e.Row.Given, changed); err != nil {
				return fmt.Errorf("secret %s: %w", e.ID, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return fmt.Errorf("no secret %q can be brought; these can: %s", name, strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
	}
	return nil
}

// rename has a password that users share keep its value when another of the rows that name it makes it now: which one
// it is changes with the roles of the configuration (maker). It takes the ID away from the row before, so that a value
// that is replaced later does not come back with that row.
func (u *updater) rename(e Entry, wanted, changed map[string]bool) {
	if u.tree.Secrets[e.ID] != nil || e.Row.Each != service.OneUser || e.From != "" {
		return
	}
	from := ""
	for _, id := range slices.Sorted(maps.Keys(u.tree.Secrets)) {
		row, ref, _ := strings.Cut(id, "/")
		if ref != e.Name || wanted[id] || !passedOn(services.Of(u.c), row, e.Row) {
			continue
		}
		if from == "" || u.tree.Secrets[id].Made.After(u.tree.Secrets[from].Made) {
			from = id
		}
	}
	if from == "" {
		return
	}
	u.tree.Secrets[e.ID] = u.tree.Secrets[from]
	delete(u.tree.Secrets, from)
	changed[e.ID] = true
	u.did(e.ID, "kept", "it was "+from)
}

// passedOn tells whether what a row made, of which only the name may be left, is what another one makes now. One of the
// two is of a role of the configuration's own: services of ours do not share.
func passedOn(l *services.List, name string, now service.SecretRow) bool {
	all := Secrets(l)
	i := slices.IndexFunc(all, func(r service.SecretRow) bool { return r.Name == name })
	if i < 0 {
		return strings.HasSuffix(name, role.SettingsEnding) && now.Form == service.FormPassword
	}
	own := l.OwnNames()
	return all[i].Each == service.OneUser && all[i].Form == now.Form && all[i].From == "" &&
		(slices.Contains(own, all[i].Service) || slices.Contains(own, now.Service))
}

func (u *updater) secret(e Entry, value Hidden, given bool, changed map[string]bool) error {
	have := u.tree.Secrets[e.ID]
	did, why := "made", "it is needed"
	var err error
	switch {
	case given:
		if value, err = checkGiven(value); err != nil {
			return err
		}
		if have != nil && have.Value == value {
			have.Given = true
			return nil
		}
		why = "you brought it"
	case have != nil && !changed[e.From]:
		return nil
	default:
		var from Hidden
		if e.From != "" {
			base := u.tree.Secrets[e.From]
			if base == nil {
				return fmt.Errorf("internal error: %s is not there to derive it from", e.From)
			}
			from = base.Value
		}
		if value, err = u.makeSecret(e, from); err != nil {
			return err
		}
	}
	if have != nil {
		did = "replaced"
		if !given {
			why = e.From + " is another one"
		}
	}
	u.tree.Secrets[e.ID] = &Secret{Value: value, Made: u.o.Now, Given: given}
	changed[e.ID] = true
	u.did(e.ID, did, why)
	return nil
}

// makeSecret makes a value in its form. from is the value that it is derived from.
func (u *updater) makeSecret(e Entry, from Hidden) (Hidden, error) {
	if e.Row.Entity != "" {
		key, err := cephx.ForNode(string(from), e.Row.Entity, e.Node)
		return Hidden(key), err
	}
	if e.Row.Form == service.FormGiven {
		return "", fmt.Errorf("nobody but you has it; bring it with --secret %s=FILE", e.Name)
	}
	if e.Row.Form == service.FormPassword && e.Row.Length > 0 {
		return draw(u.o.Random, e.Row.Alphabet, e.Row.Length)
	}
	make, ok := forms[e.Row.Form]
	if !ok {
		return "", fmt.Errorf("internal error: there is no form %q", e.Row.Form)
	}
	return make(u.o.Random, u.o.Now, from)
}

// forget drops the records of nodes that are gone.
func (u *updater) forget() {
	for _, name := range slices.Sorted(maps.Keys(u.tree.Issued)) {
		if !slices.ContainsFunc(u.nodes, func(n facts.Node) bool { return n.Name == name }) {
			delete(u.tree.Issued, name)
		}
	}
}
