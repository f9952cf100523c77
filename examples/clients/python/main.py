"""Sends batches to the sample shop with the types that quicktype has written into oneflight.py."""

import json
import os
import urllib.error
import urllib.request
import uuid
from decimal import Decimal
from typing import Any, Dict, Optional, Tuple

from oneflight import BatchAnswer, ErrorEnvelope, Item, OrderParams

URL = os.environ.get("ONEFLIGHT_URL", "http://127.0.0.1:4000")
TOKEN = os.environ["ONEFLIGHT_TOKEN"]


class Refused(Exception):
    """The service has answered with an error, which `error` describes."""

    def __init__(self, envelope: ErrorEnvelope):
        super().__init__(f"{envelope.error.code}: {envelope.error.message}")
        self.error = envelope.error


def send(path: str, body: Any, key: Optional[str] = None) -> Tuple[Dict[str, Any], Any]:
    """Returns the results by operation, and the headers of the response. Raises Refused."""
    request = urllib.request.Request(
        URL + path,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    if key is not None:
        request.add_header("Idempotency-Key", key)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            # Decimal keeps every digit of a numeric.
            answer = json.loads(response.read(), parse_float=Decimal)
            return BatchAnswer.from_dict(answer).data, response.headers
    except urllib.error.HTTPError as failure:
        raise Refused(ErrorEnvelope.from_dict(json.loads(failure.read()))) from None


def new_order(name: str, customer_id: str) -> list:
    """A batch: a customer, an order, and a line of the order."""
    return [
        {"id": "customer", "op": "insert", "table": "customers", "values": [{"name": name}]},
        {"id": "order", "op": "insert", "table": "orders",
         "values": [{"customer_id": customer_id}]},
        {"id": "lines", "op": "insert", "table": "order_items",
         "values": [{"order_id": "$order.id", "sku": "apple", "qty": 2}]},
    ]


def main() -> None:
    # 1. References: the order has the id of the new customer.
    data, _ = send("/", new_order("Bakery", "$customer.id"))
    [customer], [order], [line] = data["customer"], data["order"], data["lines"]
    assert order["customer_id"] == customer["id"] and line["order_id"] == order["id"]
    print(f"batch: {line['qty']} {line['sku']}s for {customer['name']}")

    # 2. A named batch, whose parameters have a generated type.
    params = OrderParams(account="till", customer_id=1, items=[Item(qty=2, sku="pear")])
    data, _ = send("/batches/order", params.to_dict())
    [order], [total] = data["order"], data["total"]
    print(f"named batch: an order of {total['order_total']} is {order['status']}")

    # 3. The same batch twice with one key: it is applied once.
    job = [{"id": "job", "op": "insert", "table": "jobs", "values": [{"task": {"mail": "hello"}}]}]
    key = str(uuid.uuid4())
    first, _ = send("/", job, key)
    second, headers = send("/", job, key)
    assert first == second and headers["Idempotent-Replayed"] == "true"
    print("idempotency key: sent twice, applied once")

    # 4. An error says what is wrong, in which operation, and where: there is no "costumer".
    try:
        send("/", new_order("Butcher", "$costumer.id"))
    except Refused as refused:
        error = refused.error
        assert error.committed is False and error.errors is not None
        [issue] = error.errors
        print(f"error: {error.code}, {issue.code.value} in {issue.op} at {json.dumps(issue.path)}")
    else:
        raise AssertionError("a reference to an unknown operation is accepted")


main()
