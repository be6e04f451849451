package nodeapi

// ConfigPath takes a new configuration (package update) as the body of a POST. Its answer is JSON: what became of it.
const ConfigPath = "/v1/config"
