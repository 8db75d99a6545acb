// Package openapi has the OpenAPI 3.1 document of the API's JSON form, which `make proto` makes from the .proto files.
package openapi

import _ "embed"

// Document is the document, as JSON.
//
//go:embed openapi.json
var Document []byte
