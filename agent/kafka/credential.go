package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Bounds of SCRAM-SHA-512 in Kafka (org.apache.kafka.common.security.scram.internals.ScramMechanism).
const (
	leastIterations = 4096
	mostIterations  = 16384
	// saltedLength is the length of a salted password: that of a SHA-512.
	saltedLength = 64
)

// Credential is a password in salted form (RFC 5802, section 3).
type Credential struct {
	Iterations   int32
	Salt, Salted []byte
}

// credentialForm is how bundles hold it: as an argument of kafka-storage, without the name.
var credentialForm = regexp.MustCompile(`^SCRAM-SHA-512=\[iterations=([0-9]{1,6}),salt="([A-Za-z0-9+/=]{1,512})",saltedpassword="([A-Za-z0-9+/=]{1,128})"\]\s*$`)

// ParseCredential reads a bundle's entry. Its errors never hold any of it.
func ParseCredential(text []byte) (Credential, error) {
	m := credentialForm.FindSubmatch(text)
	if m == nil {
		return Credential{}, errors.New("it is not a salted password as `spore pki` makes them")
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil || n < leastIterations || n > mostIterations {
		return Credential{}, fmt.Errorf("its number of iterations is out of bounds: Kafka takes %d to %d", leastIterations, mostIterations)
	}
	c := Credential{Iterations: int32(n)}
	if c.Salt, err = base64.StdEncoding.DecodeString(string(m[2])); err != nil || len(c.Salt) == 0 {
		return Credential{}, errors.New("its salt is not base64")
	}
	if c.Salted, err = base64.StdEncoding.DecodeString(string(m[3])); err != nil || len(c.Salted) != saltedLength {
		return Credential{}, fmt.Errorf("its salted password is not %d bytes in base64", saltedLength)
	}
	return c, nil
}
