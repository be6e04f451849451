package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/units/unitfile"
)

func TestSecretsInUnitsAreFound(t *testing.T) {
	const literal, url = "a literal secret", "a URL with a user and password"
	for line, want := range map[string]string{
		"SetCredential=db:hunter2":                                        "a credential",
		"SetCredentialEncrypted=db: WhQZht":                               "a credential",
		"SetCredential=":                                                  "",
		"LoadCredential=db:/run/db/password":                              "",
		"ExecStart=/usr/bin/x --password=hunter2hunter2 -u x":             literal,
		"ExecStart=/usr/bin/x --password hunter2":                         literal,
		"ExecStart=/usr/bin/x --db-password \"hunter2\" -v":               literal,
		"ExecStartPre=/usr/bin/x --api-key=abc123 -u x":                   literal,
		"ExecStop=/usr/bin/java -Dmq.token=abc -jar x.jar":                literal,
		"ExecStart=/usr/bin/sh -c 'PASSWORD=hunter2 exec /usr/bin/x'":     literal,
		"ExecStart=/usr/bin/mosquitto_pub -u plant -P hunter2 -t a":       literal,
		"ExecStart=/usr/bin/mysql -u plant -phunter2 db":                  literal,
		"ExecStart=/usr/bin/x -p hunter2 --user=plant":                    literal,
		"ExecStart=/usr/bin/x mqtt://plant:hunter2@broker":                url,
		"Environment=A_PASSWORD=hunter2 B=y":                              literal,
		"Environment=A=y \"B_TOKEN=hunter2\"":                             literal,
		"Environment=URL=mqtt://plant:hunter2@broker":                     url,
		"Environment=PASSWORD_FILE=%d/password":                           "",
		"ExecStart=/usr/bin/x --password-file=/run/x/password -u x":       "",
		"ExecStart=/usr/bin/x --password=${PASSWORD} -u x":                "",
		"ExecStart=/usr/bin/x --token=%d/token":                           "",
		"ExecStart=/usr/bin/x --token %d/token":                           "",
		"ExecStart=/usr/bin/x --token --verbose":                          "",
		"ExecStart=/usr/bin/x --secret=/run/x/secret":                     "",
		"ExecStart=/usr/bin/mosquitto_sub -u plant -P ${PASSWORD} -p 883": "",
		"ExecStart=/usr/bin/mosquitto_sub -p 1883 -u plant":               "",
		"ExecStart=/usr/bin/psql -U plant --no-password db":               "",
		"ExecStart=/usr/bin/x -u plant -p 127.0.0.1:8080:80":              "",
		"ExecStart=/usr/bin/x -p plant":                                   "",
		"ExecStartPre=/usr/bin/mkdir -p /run/x/y":                         "",
		"ExecStart=/usr/bin/x mqtt://plant:${PASSWORD}@broker":            "",
		"ExecStart=/usr/bin/x https://host:8080/a@b":                      "",
		"ExecStart=/usr/bin/rotate-token plant":                           "",
		"Description=password: hunter2":                                   "",
	} {
		settings, faults := unitfile.Parse([]byte("[Service]\n"+line+"\n"), ".service")
		require.Empty(t, faults)
		require.Len(t, settings, 1)
		require.Equal(t, want, settingSecret(settings[0]), line)
	}
}
