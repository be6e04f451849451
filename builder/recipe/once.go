package recipe

import (
	"embed"
	"fmt"
	"path"

	"spore/builder/replay"
	"spore/builder/tree"
)

// onceUnits make on the node, once, what maintainer scripts would make in an image and what no image may have: keys,
// certificates, databases.
//
//go:embed once/*.service
var onceUnits embed.FS

// once is a package whose scripts call commands that make secrets, and the unit that runs them on the node.
type once struct {
	pkg      string
	commands []string
	unit     string // a file of onceUnits
	// says is what the commands print, makes what scripts find behind them (replay.OnNode).
	says  string
	makes []string
	// links lead from the volatile /etc to state, by path.
	links map[string]string
	// enable is a unit, or an instance of a template, that starts with it.
	enable string
}

var onces = []once{
	{pkg: "bind9", commands: []string{"rndc-confgen"}, unit: "spore-bind9.service", makes: []string{"/etc/bind/rndc.key"}},
	{pkg: "dropbear", commands: []string{"dropbearkey", "ssh-keygen"}, unit: "spore-dropbear.service", says: "ssh-rsa of the node\n"},
	{pkg: "freeradius-config", commands: []string{"openssl"}, unit: "spore-freeradius.service"},
	{pkg: "miniupnpd", commands: []string{"uuidgen"}, unit: "spore-miniupnpd.service"},
	{pkg: "nsd", commands: []string{"nsd-control-setup"}, unit: "spore-nsd.service"},
	{pkg: "nvme-cli", commands: []string{"nvme", "uuidgen"}, unit: "spore-nvme.service",
		makes: []string{"/etc/nvme/hostid", "/etc/nvme/hostnqn"}},
	{pkg: "open-iscsi", commands: []string{"iscsi-iname"}, unit: "spore-iscsi.service", says: "of the node\n",
		makes: []string{"/etc/iscsi/initiatorname.iscsi"}},
	{pkg: "openssh-server", commands: []string{"ssh-keygen", "sshd", "sshd.session-split"}, unit: "spore-ssh-host-keys.service"},
	{pkg: "rabbitmq-server", commands: []string{"openssl"}, unit: "spore-rabbitmq.service",
		makes: []string{"/var/lib/rabbitmq/.erlang.cookie"}},
	{pkg: "ssl-cert", commands: []string{"make-ssl-cert"}, unit: "spore-ssl-cert.service",
		makes: []string{"/etc/ssl/certs/ssl-cert-snakeoil.pem", "/etc/ssl/private/ssl-cert-snakeoil.key"}},
	{pkg: "usbguard", commands: []string{"usbguard"}, unit: "spore-usbguard.service"},
	{pkg: "postgresql-17", commands: []string{"pg_createcluster"}, unit: "spore-postgresql.service",
		links: map[string]string{"/etc/postgresql": "/var/lib/postgresql/etc"}, enable: "postgresql@17-main.service"},
	{pkg: "mariadb-server", commands: []string{"mariadb-install-db", "mysql_install_db"}, unit: "spore-mariadb.service"},
}

// onNode are the commands of onces by package.
func onNode() map[string]replay.OnNode {
	out := map[string]replay.OnNode{}
	for _, o := range onces {
		out[o.pkg] = replay.OnNode{Commands: o.commands, Says: o.says, Makes: o.makes}
	}
	return out
}

// layOnce lays in the units of those packages whose scripts called such a command.
func layOnce(b *build) error {
	called := map[string]bool{}
	for _, name := range b.replay.Deferred() {
		called[name] = true
	}
	for _, o := range onces {
		if !called[o.pkg] {
			continue
		}
		if err := b.layOnceUnit(o); err != nil {
			return fmt.Errorf("%s: %w", o.unit, err)
		}
	}
	return nil
}

func (b *build) layOnceUnit(o once) error {
	data, err := onceUnits.ReadFile("once/" + o.unit)
	if err != nil {
		return err
	}
	p := path.Join(packageUnits, o.unit)
	if err := b.add(p, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(data), Origin: "unit:" + o.unit}, "runs once on the node"); err != nil {
		return err
	}
	if err := b.enable(o.unit, nil, p); err != nil {
		return err
	}
	for _, p := range o.makes {
		if err := b.tree.Remove(p); err != nil {
			return err
		}
	}
	for link, target := range o.links {
		if len(b.tree.Children(link)) > 0 {
			return fmt.Errorf("%s has content, and is to be a link to state", link)
		}
		if err := b.tree.Remove(link); err != nil {
			return err
		}
		if err := b.link(target, link, "kept in state"); err != nil {
			return err
		}
	}
	if o.enable == "" {
		return nil
	}
	template := path.Join(packageUnits, "postgresql@.service")
	return b.unitLink(template, path.Join(localUnits, "multi-user.target.wants", o.enable))
}
