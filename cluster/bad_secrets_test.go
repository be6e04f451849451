package cluster

// badSecrets holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badSecrets = []badInput{
	{
		"a literal password",
		[]edit{{"services/mqtt.yaml", "password: {secretRef: mqtt-password-sensor}", "password: hunter2"}},
		[]string{
			"services/mqtt.yaml:18:15: error: password holds a literal secret; it would be readable in every image: write `password: {secretRef: NAME}` and put the secret into the bundle under NAME",
		},
	},
	{
		"a password under an unknown key",
		[]edit{{"services/mqtt.yaml", "port: 8883", "adminPassword: hunter2"}},
		[]string{
			`services/mqtt.yaml:7:1: error: the key "adminPassword" is unknown here and looks like a literal secret; secrets do not belong in these files: name an entry of the bundle by secretRef where a service wants one`,
		},
	},
	{
		"a token in a comment",
		[]edit{{"cluster.yaml", "name: plant\n", "name: plant # join token: abcdef.0123456789abcdef\n"}},
		[]string{
			`cluster.yaml:4:20: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a commented-out password",
		[]edit{{"services/mqtt.yaml", "port: 8883", "# password: hunter2"}},
		[]string{
			`services/mqtt.yaml:7:3: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a private key in a text",
		[]edit{{"services/mqtt.yaml", "key: {secretRef: mqtt-tls-key}", "key: |\n    -----BEGIN PRIVATE KEY-----\n    MIIE\n    -----END PRIVATE KEY-----"}},
		[]string{
			"services/mqtt.yaml:12:8: error: key holds a literal secret; it would be readable in every image: write `key: {secretRef: NAME}` and put the secret into the bundle under NAME",
			`services/mqtt.yaml:13:5: error: this line holds a PEM block; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a certificate in a text",
		[]edit{{"nodes/worker-02.yaml", "plant.example/hall: north", "plant.example/hall: \"-----BEGIN CERTIFICATE-----\""}},
		[]string{
			`nodes/worker-02.yaml:6:23: error: the label value "-----BEGIN CERTIFICATE-----" is not valid; write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends`,
			`nodes/worker-02.yaml:6:24: error: this line holds a PEM block; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a password hash",
		[]edit{{"services/mqtt.yaml", "secretRef: mqtt-password-sensor", "secretRef: \"$7$101$bWFkZXVwc2FsdA==$bm90YXJlYWxoYXNo\""}},
		[]string{
			`services/mqtt.yaml:18:27: error: password: secretRef "$7$101$bWFkZXVwc2FsdA==$bm90YXJlYWxoYXNo" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key`,
			`services/mqtt.yaml:18:28: error: this line holds a password hash, which can be cracked; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a URL with a password",
		[]edit{{"image.yaml", "suite: trixie", "mirror: https://ci:hunter2@mirror.example/debian"}},
		[]string{
			`image.yaml:6:9: error: this line holds a URL with a user and password; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a password among the kernel arguments",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [luks.password=hunter2]"}},
		[]string{
			`image.yaml:19:19: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"an age identity",
		[]edit{{"cluster.yaml", "name: plant\n", "name: plant # AGE-SECRET-KEY-1QQQQ\n"}},
		[]string{
			`cluster.yaml:4:15: error: this line holds an age identity; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"a secretRef that is not a name",
		[]edit{{"services/mqtt.yaml", "mqtt-password-sensor", "MQTT_Password"}},
		[]string{
			`services/mqtt.yaml:18:27: error: password: secretRef "MQTT_Password" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as mqtt-tls-key`,
		},
	},
	{
		"a secretRef that is a secret in a list",
		[]edit{{"services/mqtt.yaml", "password: {secretRef: mqtt-password-sensor}", "password: [hunter2]"}},
		[]string{
			"services/mqtt.yaml:18:15: error: password holds a literal secret; it would be readable in every image: write `password: {secretRef: NAME}` and put the secret into the bundle under NAME",
		},
	},
}
