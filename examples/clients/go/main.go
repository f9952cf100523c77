// Sends batches to the sample shop with the types that quicktype has written into oneflight.go.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"reflect"
	"time"
)

type row = map[string]interface{}

// refused is the error of a batch that the service has answered with an error.
type refused struct{ ErrorObject }

func (e *refused) Error() string { return e.Code + ": " + e.Message }

var client = &http.Client{Timeout: 30 * time.Second}

// send returns the rows by operation, and the headers of the response. An empty key is not sent.
func send(path string, body interface{}, key string) (map[string][]row, http.Header, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	url := os.Getenv("ONEFLIGHT_URL")
	if url == "" {
		url = "http://127.0.0.1:4000"
	}
	request, err := http.NewRequest("POST", url+path, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ONEFLIGHT_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		envelope, err := UnmarshalErrorEnvelope(content)
		if err != nil {
			return nil, nil, fmt.Errorf("status %d: %w", response.StatusCode, err)
		}
		return nil, nil, &refused{envelope.Error}
	}
	answer, err := UnmarshalBatchAnswer(content)
	if err != nil {
		return nil, nil, err
	}
	rows := map[string][]row{}
	for id, result := range answer.Data {
		// An operation that was skipped has no result. A number of rows is in result.Integer.
		if result != nil {
			rows[id] = result.AnythingMapArray
		}
	}
	return rows, response.Header, nil
}

// newOrder is a batch: a customer, an order, and a line of the order.
func newOrder(name, customerID string) []Insert {
	return []Insert{
		{ID: "customer", Op: OpInsert, Table: "customers", Values: []row{{"name": name}}},
		{ID: "order", Op: OpInsert, Table: "orders", Values: []row{{"customer_id": customerID}}},
		{ID: "lines", Op: OpInsert, Table: "order_items",
			Values: []row{{"order_id": "$order.id", "sku": "apple", "qty": 2}}},
	}
}

func check(ok bool, message string) {
	if !ok {
		log.Fatal(message)
	}
}

func must(rows map[string][]row, header http.Header, err error) (map[string][]row, http.Header) {
	if err != nil {
		log.Fatal(err)
	}
	return rows, header
}

func main() {
	// 1. References: the order has the id of the new customer.
	rows, _ := must(send("/", newOrder("Bakery", "$customer.id"), ""))
	customer, order, line := rows["customer"][0], rows["order"][0], rows["lines"][0]
	check(order["customer_id"] == customer["id"], "the order has another customer")
	check(line["order_id"] == order["id"], "the line has another order")
	fmt.Printf("batch: %v %vs for %v\n", line["qty"], line["sku"], customer["name"])

	// 2. A named batch, whose parameters have a generated type.
	params := OrderParams{Account: "till", CustomerID: 1, Items: []Item{{Qty: 2, Sku: "pear"}}}
	rows, _ = must(send("/batches/order", params, ""))
	fmt.Printf("named batch: an order of %v is %v\n",
		rows["total"][0]["order_total"], rows["order"][0]["status"])

	// 3. The same batch twice with one key: it is applied once.
	job := []Insert{{ID: "job", Op: OpInsert, Table: "jobs",
		Values: []row{{"task": row{"mail": "hello"}}}}}
	random := make([]byte, 16)
	_, err := rand.Read(random)
	check(err == nil, "no random bytes")
	key := fmt.Sprintf("%x", random)
	first, _ := must(send("/", job, key))
	second, header := must(send("/", job, key))
	check(reflect.DeepEqual(first, second), "another response")
	check(header.Get("Idempotent-Replayed") == "true", "applied again")
	fmt.Println("idempotency key: sent twice, applied once")

	// 4. An error says what is wrong, in which operation, and where: there is no "costumer".
	_, _, err = send("/", newOrder("Butcher", "$costumer.id"), "")
	failure, ok := err.(*refused)
	check(ok, fmt.Sprint("a reference to an unknown operation is accepted: ", err))
	check(failure.Committed.Bool != nil && !*failure.Committed.Bool, "committed")
	check(len(failure.Errors) == 1, "another number of issues")
	issue := failure.Errors[0]
	path, err := json.Marshal(issue.Path)
	check(err == nil, "the path is not JSON")
	fmt.Printf("error: %v, %v in %v at %s\n", failure.Code, *issue.Code, *issue.Op, path)
}
