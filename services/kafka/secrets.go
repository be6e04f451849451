package kafka

import (
	"spore/cluster/spec"
	"spore/services/service"
)

// AdminSecret is the password of the user Admin, which the operator's folder has.
const AdminSecret = "kafka-password-admin"

// Organization is the organization in the certificates of brokers and controllers, by which they are one principal.
const Organization = "spore:kafka-brokers"

// members are the roles on whose nodes Kafka runs.
var members = []string{Broker, Controller}

// operator is who keeps passwords: brokers have them in salted form.
var operator = []string{service.OperatorOnly}

var authorities = []service.AuthorityRow{
	{Name: "kafka", Kind: service.CA, Title: "Spore Kafka CA", Usage: service.Server | service.Client},
}

var leaves = []service.LeafRow{
	{Name: "kafka-broker", Authority: "kafka", Roles: members, CommonName: "{node}", Organization: []string{Organization},
		SANs: append([]string{"kafka.{domain}", "{aliases}"}, service.HostNames...), Usage: service.Server | service.Client},
}

var secrets = []service.SecretRow{
	{Name: "kafka-cluster-id", Roles: members, Form: service.FormKafkaID},
	{Name: AdminSecret, Roles: operator, Form: service.FormPassword, Given: true},
	{Name: "kafka-scram-admin", Roles: []string{Broker}, Form: service.FormSCRAM, From: AdminSecret},
	{Name: "kafka-password", Roles: operator, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormPassword, Given: true},
	// What kafka.yaml calls the password is, on brokers, its salted form.
	{Name: "kafka-scram", Roles: []string{Broker}, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormSCRAM, From: "kafka-password"},
}

func userSecrets(s spec.Services) []string {
	var out []string
	if k := Of(s); k != nil {
		for _, u := range k.Users {
			out = append(out, u.Password.SecretRef)
		}
	}
	return out
}
