package cluster

// badOverlay is about overlay/, overlay.yaml and units/ as the whole folder has them; the tests of packages overlay and
// units have what is particular to each.
var badOverlay = []badInput{
	{
		"a file over one of the image itself",
		[]edit{{"overlay/usr/bin/spore-agent", "", "#!/bin/sh\n"}},
		[]string{
			`overlay/usr/bin/spore-agent:1:1: error: no file of overlay/ can be at /usr/bin/spore-agent: the machine is run by it`,
		},
	},
	{
		"an entry without its file",
		[]edit{
			{"overlay/etc/gateway.conf", "", "listen: 1\n"},
			{"overlay.yaml", "", "files:\n  /etc/gateway.conf: {mode: \"0640\"}\n  /etc/gatewy.conf: {mode: \"0640\"}\n"},
		},
		[]string{
			`overlay.yaml:3:21: error: there is no file overlay/etc/gatewy.conf; did you mean "/etc/gateway.conf"?`,
		},
	},
	{
		"settings without a folder",
		[]edit{{"overlay.yaml", "", "files:\n  /etc/gateway.conf: {mode: \"0640\"}\n"}},
		[]string{
			`overlay.yaml:2:22: error: there is no file overlay/etc/gateway.conf; add the file, or remove the entry`,
		},
	},
	{
		"a key that there is not",
		[]edit{
			{"overlay/etc/gateway.conf", "", "listen: 1\n"},
			{"overlay.yaml", "", "files:\n  /etc/gateway.conf: {modus: \"0640\", mode: 640}\n"},
		},
		[]string{
			`overlay.yaml:2:23: error: unknown key "modus"; did you mean "mode"?`,
			`overlay.yaml:2:44: error: mode is a number where a text belongs; put it into quotes: "640"`,
		},
	},
	{
		"an entry that changes nothing",
		[]edit{
			{"overlay/etc/gateway.conf", "", "listen: 1\n"},
			{"overlay.yaml", "", "files:\n  /etc/gateway.conf: {}\n"},
		},
		[]string{
			`overlay.yaml:2:22: error: the entry changes nothing; write one of owner, group, mode and replace, or remove it`,
		},
	},
	{
		"a private key",
		[]edit{{"overlay/etc/gateway.pem", "", "certificate\n-----BEGIN EC PRIVATE KEY-----\n"}},
		[]string{
			`overlay/etc/gateway.pem:2:1: error: this line holds a private key, and everybody with the image can read it: take it out, and give it to the node on its state partition`,
		},
	},
	{
		"a password hash",
		[]edit{{"overlay/etc/htpasswd", "", "operator:$2y$05$abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstu\n"}},
		[]string{
			`overlay/etc/htpasswd:1:9: error: this line holds a password hash, which can be cracked, and everybody with the image can read it: take it out, and give it to the node on its state partition`,
		},
	},
	{
		"a password in the environment of a unit",
		[]edit{{"units/gateway.service", "", "[Service]\nExecStart=/usr/bin/gateway\nEnvironment=GATEWAY_PASSWORD=hunter2\n"}},
		[]string{
			`units/gateway.service:3:1: error: Environment= holds a literal secret; it would be readable in every image: give the unit a file by LoadCredential=, such as a secret of its role (roles/)`,
		},
	},
	{
		"a unit with the name of one of ours",
		[]edit{{"units/kafka.service", "", "[Service]\nExecStart=/usr/bin/kafka\n"}},
		[]string{
			`units/kafka.service:1:1: error: kafka.service is the name of a unit of Spore; choose another one`,
		},
	},
	{
		"faults of a unit have their line",
		[]edit{{"units/gateway.service", "", "[Service]\nExecStart=/usr/bin/gateway\nRestart\n[Instal]\n"}},
		[]string{
			`units/gateway.service:3:1: error: the line has no =; write KEY=VALUE, or join it to the line before by a \ at the end of that one`,
			`units/gateway.service:4:1: error: the section [Instal] is unknown, so that systemd would pass over it; write one of [Unit], [Service], [Install]`,
		},
	},
	{
		"waiting for a target that nothing starts",
		[]edit{{"units/gateway.service", "", "[Unit]\nAfter=network-online.target\n[Service]\nExecStart=/usr/bin/gateway\n"}},
		[]string{
			`units/gateway.service:2:1: warning: After=network-online.target waits for nothing where no unit wants that target; add Wants=network-online.target`,
		},
	},
	{
		"folders that are nearly right",
		[]edit{{"overlays/etc/x", "", "x"}, {"unit/x.service", "", "x"}},
		[]string{
			`overlays:1:1: error: nothing reads this directory; did you mean "overlay"?`,
			`unit:1:1: error: nothing reads this directory; did you mean "units"?`,
		},
	},
}
