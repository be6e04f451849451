package recipe

import "path"

// choice is one program that can stand behind the name of an alternative.
type choice struct {
	name     string // of the link in /etc/alternatives
	link     string // the path that people use
	target   string
	priority int
}

// choices replays update-alternatives --install of the packages' postinst scripts; a target that is not in the tree does
// not count. Links of manual pages are left out with the pages.
var choices = []choice{
	{"awk", "/usr/bin/awk", "/usr/bin/mawk", 5},
	{"awk", "/usr/bin/awk", "/usr/bin/gawk", 10},
	{"nawk", "/usr/bin/nawk", "/usr/bin/mawk", 5},
	{"nawk", "/usr/bin/nawk", "/usr/bin/gawk", 10},
	{"mt", "/usr/bin/mt", "/usr/bin/mt-gnu", 10},
	{"pager", "/usr/bin/pager", "/bin/more", 50},
	{"pager", "/usr/bin/pager", "/bin/less", 77},
	{"rmt", "/usr/sbin/rmt", "/usr/sbin/rmt-tar", 50},
	{"which", "/usr/bin/which", "/usr/bin/which.debianutils", 0},
	{"which", "/usr/bin/which", "/usr/bin/which.gnu", 10},
	{"iptables", "/usr/sbin/iptables", "/usr/sbin/iptables-legacy", 10},
	{"iptables", "/usr/sbin/iptables", "/usr/sbin/iptables-nft", 20},
	{"iptables-restore", "/usr/sbin/iptables-restore", "/usr/sbin/iptables-legacy-restore", 10},
	{"iptables-restore", "/usr/sbin/iptables-restore", "/usr/sbin/iptables-nft-restore", 20},
	{"iptables-save", "/usr/sbin/iptables-save", "/usr/sbin/iptables-legacy-save", 10},
	{"iptables-save", "/usr/sbin/iptables-save", "/usr/sbin/iptables-nft-save", 20},
	{"ip6tables", "/usr/sbin/ip6tables", "/usr/sbin/ip6tables-legacy", 10},
	{"ip6tables", "/usr/sbin/ip6tables", "/usr/sbin/ip6tables-nft", 20},
	{"ip6tables-restore", "/usr/sbin/ip6tables-restore", "/usr/sbin/ip6tables-legacy-restore", 10},
	{"ip6tables-restore", "/usr/sbin/ip6tables-restore", "/usr/sbin/ip6tables-nft-restore", 20},
	{"ip6tables-save", "/usr/sbin/ip6tables-save", "/usr/sbin/ip6tables-legacy-save", 10},
	{"ip6tables-save", "/usr/sbin/ip6tables-save", "/usr/sbin/ip6tables-nft-save", 20},
	{"arptables", "/usr/sbin/arptables", "/usr/sbin/arptables-nft", 10},
	{"ebtables", "/usr/sbin/ebtables", "/usr/sbin/ebtables-nft", 10},
	{"java", "/usr/bin/java", "/usr/lib/jvm/java-21-openjdk-amd64/bin/java", 2111},
	{"jexec", "/usr/bin/jexec", "/usr/lib/jvm/java-21-openjdk-amd64/lib/jexec", 2111},
	{"jexec-binfmt", "/usr/share/binfmts/jar", "/usr/lib/jvm/java-21-openjdk-amd64/lib/jar.binfmt", 2111},
	{"jpackage", "/usr/bin/jpackage", "/usr/lib/jvm/java-21-openjdk-amd64/bin/jpackage", 2111},
	{"keytool", "/usr/bin/keytool", "/usr/lib/jvm/java-21-openjdk-amd64/bin/keytool", 2111},
	{"rmiregistry", "/usr/bin/rmiregistry", "/usr/lib/jvm/java-21-openjdk-amd64/bin/rmiregistry", 2111},
}

// linkAlternatives makes both links of each alternative, to the choice with the highest priority.
func linkAlternatives(b *build) error {
	best := map[string]choice{}
	var order []string
	for _, c := range choices {
		if _, err := b.tree.Stat(c.target); err != nil {
			continue
		}
		have, ok := best[c.name]
		if !ok {
			order = append(order, c.name)
		}
		if !ok || c.priority > have.priority {
			best[c.name] = c
		}
	}
	for _, name := range order {
		c := best[name]
		group := path.Join("/etc/alternatives", name)
		if err := b.link(c.target, group, "alternative with the highest priority"); err != nil {
			return err
		}
		if err := b.link(group, c.link, "alternative with the highest priority"); err != nil {
			return err
		}
	}
	return nil
}
