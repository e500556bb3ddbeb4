"""HTTP, in the process of `rota serve`: routes, problems, and the OpenAPI document.

It owns how requests are read and answers written; `server/` starts it, and `model/answers` has the answers' structures.
It must never hold SQL, decide what runs, or keep state between requests.
"""
